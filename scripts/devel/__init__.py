"""What only developers of busbar use: documentation, checks of texts, skeletons, dashboards, benchmarks."""
