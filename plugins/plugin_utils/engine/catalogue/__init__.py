"""Hardware profiles: their schema, their ceilings, and drafts from the data of a machine."""
