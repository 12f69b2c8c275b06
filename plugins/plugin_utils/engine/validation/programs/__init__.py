"""The stages that run one program on all nodes, and what they share."""
