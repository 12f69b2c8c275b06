"""Check the options of the NVIDIA driver and CUDA, and lock the driver version."""
