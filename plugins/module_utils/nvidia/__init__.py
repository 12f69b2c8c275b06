"""Driver, CUDA, DCGM, GPU settings, MIG and RDMA."""
