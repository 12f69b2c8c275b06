#!/usr/bin/env python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Prints the host of each rank of an MPI job and sums the ranks."""

from __future__ import annotations

import sys


def main() -> int:
    """Sum the ranks and return 0 if every rank gets the correct sum."""
    try:
        from mpi4py import MPI  # noqa: PLC0415 - a missing module gets a clear message
    except ImportError as exc:
        sys.stderr.write(f"mpi_sum: {exc}. Install python3-mpi4py on the nodes, or use an image that contains it.\n")
        return 3
    world = MPI.COMM_WORLD
    rank, ranks = world.Get_rank(), world.Get_size()
    total = world.allreduce(rank, op=MPI.SUM)
    right = total == ranks * (ranks - 1) // 2
    place = MPI.Get_processor_name()
    sys.stdout.write(f"rank {rank} of {ranks} on {place}: sum {total}, {'correct' if right else 'WRONG'}\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
