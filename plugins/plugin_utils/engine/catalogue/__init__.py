"""Hardware profiles: their form, their ceilings, and a draft of one from a machine's answers."""
