"""What scripts/benchmark measures, one module per benchmark."""
