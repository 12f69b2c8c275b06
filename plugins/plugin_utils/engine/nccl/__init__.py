"""The output of nccl-tests."""
