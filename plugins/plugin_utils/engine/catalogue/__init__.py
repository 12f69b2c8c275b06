"""Hardware profiles: schema, ceilings, and drafts generated from a machine's data."""
