"""The stages that run collectives: of each node alone, of pairs, and of all nodes."""
