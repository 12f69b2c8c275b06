"""The stage rdma_pairs."""
