"""The stages that run one program on all nodes, and their shared code."""
