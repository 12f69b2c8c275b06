"""Developer tools: documentation, text checks, skeletons, benchmarks."""
