"""Driver, CUDA, DCGM, settings of GPUs, MIG, and RDMA."""
