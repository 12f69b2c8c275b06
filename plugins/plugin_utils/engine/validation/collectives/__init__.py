"""The stages that run collectives: on single nodes, on pairs, and on all nodes."""
