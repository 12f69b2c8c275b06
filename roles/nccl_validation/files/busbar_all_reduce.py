#!/usr/bin/python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""A true MPI_Allreduce over CPUs, printed in the table of nccl-tests' all_reduce_perf.

Run under a launcher of MPI, one process per rank: srun --mpi=pmix busbar_all_reduce.py -b 1M -e 64M -f 2
Sums of small whole numbers in 32-bit floats are exact, so each element is compared with what it must be.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import traceback

import numpy as np
from mpi4py import MPI

PATTERN = 7
WEIGHTS = 8
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Return a number of bytes written as 8, 64K, 16M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in UNITS or not number.isdigit():
        message = f"{text!r} is no size: write 8, 64K, 16M or 1G"
        raise argparse.ArgumentTypeError(message)
    return int(number) * UNITS[unit]


def options() -> argparse.Namespace:
    """Return the options; those that all_reduce_perf has too are called the same."""
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("-b", "--minbytes", type=size, default=1 << 20)
    arg.add_argument("-e", "--maxbytes", type=size, default=64 << 20)
    arg.add_argument("-f", "--stepfactor", type=int, default=2)
    arg.add_argument("-n", "--iters", type=int, default=20, help="most repetitions of one size")
    arg.add_argument("-w", "--warmup_iters", type=int, default=1)
    arg.add_argument("-c", "--check", type=int, default=1)
    arg.add_argument("-s", "--seconds", type=float, default=1.0, help="stop repeating one size after this time")
    arg.add_argument("--wrong-rank", type=int, default=-1, help="a rank that spoils one element of each sum")
    chosen = arg.parse_args()
    if chosen.minbytes < 4 or chosen.maxbytes < chosen.minbytes or chosen.stepfactor < 2 or chosen.iters < 1:  # noqa: PLR2004
        arg.error("sizes: 4 <= minbytes <= maxbytes, stepfactor >= 2, iters >= 1")
    return chosen


def say(text: str) -> None:
    """Print at once, so that a killed run shows how far it came."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def cpu_name() -> str:
    """Return the name of the processor, marked as what it is: no GPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - the program stands alone
            name = next((line.split(":", 1)[1] for line in lines if line.startswith("model name")), "")
    except OSError:
        name = ""
    return "CPU " + (" ".join(name.split()) or platform.machine())


class Test:
    """One rank's part in the test."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        """Take the buffers once, at the largest size."""
        self.chosen = chosen
        self.comm = MPI.COMM_WORLD
        self.rank = self.comm.Get_rank()
        self.ranks = self.comm.Get_size()
        most = chosen.maxbytes // 4
        self.base = np.arange(most, dtype=np.float32) % PATTERN + 1
        self.mine = self.base * np.float32(self.rank % WEIGHTS + 1)
        self.sums = np.zeros(most, dtype=np.float32)
        self.factor = np.float32(sum(rank % WEIGHTS + 1 for rank in range(self.ranks)))
        self.bad = 0
        self.busbw: list[float] = []

    def header(self) -> None:
        """Print the lines before the table."""
        chosen = self.chosen
        where = (platform.node().split(".")[0], os.getpid(), int(os.environ.get("SLURM_LOCALID", "0")), cpu_name())
        everyone = self.comm.gather(where, root=0)
        if everyone is None:
            return
        say("# Collective test starting: all_reduce_perf")
        say(
            f"# nThread 1 nGpus 1 minBytes {chosen.minbytes} maxBytes {chosen.maxbytes} "
            f"step: {chosen.stepfactor}(factor) warmup iters: {chosen.warmup_iters} iters: {chosen.iters} "
            f"agg iters: 1 validation: {chosen.check} graph: 0"
        )
        say("#\n# Using devices")
        for rank, (host, pid, device, name) in enumerate(everyone):
            say(f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10s} device {device:2d} [0000:00:00] {name}")
        half = "    time   algbw   busbw  #wrong"
        say("#\n#" + " " * 62 + "out-of-place" + " " * 23 + "in-place")
        say(f"#{'size':>11s}{'count':>14s}{'type':>10s}{'redop':>8s}{'root':>8s} {half} {half}")
        units = "    (us)  (GB/s)  (GB/s)        "
        say(f"#{'(B)':>11s}{'(elements)':>14s}{'':26s} {units} {units}".rstrip())

    def once(self, count: int, *, in_place: bool) -> None:
        """Sum count elements over all ranks."""
        if in_place:
            self.comm.Allreduce(MPI.IN_PLACE, [self.sums[:count], MPI.FLOAT], op=MPI.SUM)
        else:
            self.comm.Allreduce([self.mine[:count], MPI.FLOAT], [self.sums[:count], MPI.FLOAT], op=MPI.SUM)

    def first(self, count: int, *, in_place: bool) -> tuple[float, int]:
        """Sum once from fresh values; returns the mean time over the ranks and the wrong elements over all ranks."""
        self.sums[:count] = self.mine[:count] if in_place else 0
        self.comm.Barrier()
        start = time.perf_counter()
        self.once(count, in_place=in_place)
        took = time.perf_counter() - start
        if self.chosen.wrong_rank == self.rank:
            self.sums[count // 2] += np.float32(1)
        wrong = int(np.count_nonzero(self.sums[:count] != self.base[:count] * self.factor)) if self.chosen.check else 0
        return self.comm.allreduce(took, op=MPI.SUM) / self.ranks, int(self.comm.allreduce(wrong, op=MPI.SUM))

    def usual(self, count: int, first: float, *, in_place: bool) -> float:
        """Return the seconds of one sum: the median of the repetitions, the mean over the ranks.

        What else the processor does for a moment does not count. A first sum that took very long is not repeated.
        """
        fit = min(self.chosen.iters, int(self.chosen.seconds / first)) if first > 0 else self.chosen.iters
        if fit < 1 and first > 2 * self.chosen.seconds:
            return first
        self.sums[:count] = 0
        for _ in range(self.chosen.warmup_iters - 1):
            self.once(count, in_place=in_place)
        self.comm.Barrier()
        times = []
        for _ in range(max(1, fit)):
            start = time.perf_counter()
            self.once(count, in_place=in_place)
            times.append(time.perf_counter() - start)
        return float(self.comm.allreduce(float(np.median(times)), op=MPI.SUM)) / self.ranks

    def half(self, count: int, *, in_place: bool) -> str:
        """Measure one half of a row and return its cells."""
        first, wrong = self.first(count, in_place=in_place)
        took = self.usual(count, first, in_place=in_place)
        algbw = count * 4 / took / 1e9
        busbw = algbw * 2 * (self.ranks - 1) / self.ranks
        self.busbw.append(busbw)
        self.bad += wrong > 0
        checked = str(wrong) if self.chosen.check else "N/A"
        return f" {took * 1e6:7.2f} {algbw:7.4f} {busbw:7.4f} {checked:>7s}"

    def run(self) -> int:
        """Print the table and return the exit code."""
        self.header()
        bytes_now = self.chosen.minbytes
        while bytes_now <= self.chosen.maxbytes:
            count = bytes_now // 4
            halves = [self.half(count, in_place=in_place) for in_place in (False, True)]
            if self.rank == 0:
                say(f"{count * 4:12d}{count:14d}{'float':>10s}{'sum':>8s}{-1:8d} {halves[0]} {halves[1]}")
            bytes_now *= self.chosen.stepfactor
        if self.rank == 0:
            say(f"# Out of bounds values : {self.bad} {'FAILED' if self.bad else 'OK'}")
            say(f"# Avg bus bandwidth    : {sum(self.busbw) / len(self.busbw):g} ")
            say("#\n# Collective test concluded: all_reduce_perf")
        return 1 if self.bad else 0


def main() -> int:
    """Run the test; a rank that fails ends all others, which would wait for it for ever."""
    chosen = options()
    try:
        return Test(chosen).run()
    except Exception:  # noqa: BLE001 - whatever it is, the others must not hang
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(3)
        return 3


if __name__ == "__main__":
    sys.exit(main())
