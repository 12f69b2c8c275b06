"""The stage gemm."""
