"""Parsers for the output of nccl-tests and NCCL."""
