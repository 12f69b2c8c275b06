"""The benchmarks of scripts/benchmark, one module each."""
