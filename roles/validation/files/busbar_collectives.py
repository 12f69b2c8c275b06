#!/usr/bin/python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs MPI collectives on CPUs, verifies each result, and prints the table of nccl-tests.

Run it with an MPI launcher, one process per rank: srun --mpi=pmix busbar_collectives.py alltoall -b 1M -e 64M -f 2

All values are small integers, which 32-bit floats represent and add exactly.
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

# In Open MPI 5 a rank may leave MPI_Init before another rank can receive, which then crashes: issue 12495 of
# open-mpi/ompi. As a workaround each rank waits before it sends.
WARM_UP_S = 1.0
PATTERN = 7
WEIGHTS = 8
ALIGNED = 4
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Return the number of bytes for a size such as 8, 64K, 16M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in UNITS or not number.isdigit():
        message = f"{text!r} is not a valid size: use a number such as 8, 64K, 16M or 1G"
        raise argparse.ArgumentTypeError(message)
    return int(number) * UNITS[unit]


class Collective:
    """One rank's part in a collective.

    Attributes:
        redop: the reduction operator in the table.
        root: the root rank, or -1.
        shared: whether the message has one part per rank, so that the table counts the elements of a part.
    """

    redop = "none"
    root = -1
    shared = True

    def __init__(self, most: int) -> None:
        """Allocate the buffers for `most` elements."""
        self.comm = MPI.COMM_WORLD
        self.rank, self.ranks = self.comm.Get_rank(), self.comm.Get_size()
        self.base = np.arange(most, dtype=np.float32) % PATTERN + 1
        self.sent = np.zeros(most, dtype=np.float32)
        self.got = np.zeros(most, dtype=np.float32)

    def busbw(self, algbw: float) -> float:
        """Return the bus bandwidth, with the factors in nccl-tests' doc/PERFORMANCE.md."""
        return algbw * (self.ranks - 1) / self.ranks

    def weight(self, rank: int) -> np.float32:
        """Return a factor that distinguishes a rank's values from other ranks' values."""
        return np.float32(rank % WEIGHTS + 1)

    def part(self, count: int, rank: int) -> slice:
        """Return the slice of a rank's part in a message with `count` elements per part."""
        return slice(rank * count, (rank + 1) * count)

    def total(self, count: int) -> int:
        """Return the number of elements of a message."""
        return count * self.ranks if self.shared else count

    def fill(self, count: int) -> None:
        """Fill the send buffer of this rank."""
        raise NotImplementedError

    def seed(self, count: int) -> None:
        """Initialise the buffer of the in-place measurement."""
        self.got[: self.total(count)] = self.sent[: self.total(count)]

    def run(self, count: int, *, in_place: bool) -> None:
        """Run the collective once."""
        raise NotImplementedError

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        """Return the slice with this rank's result and the expected values."""
        raise NotImplementedError


class _AllReduce(Collective):
    """All ranks receive the sum over all ranks."""

    redop = "sum"
    shared = False

    def busbw(self, algbw: float) -> float:
        return algbw * 2 * (self.ranks - 1) / self.ranks

    def fill(self, count: int) -> None:
        self.sent[:count] = self.base[:count] * self.weight(self.rank)

    def run(self, count: int, *, in_place: bool) -> None:
        sent = MPI.IN_PLACE if in_place else [self.sent[:count], MPI.FLOAT]
        self.comm.Allreduce(sent, [self.got[:count], MPI.FLOAT], op=MPI.SUM)

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        return slice(0, count), self.base[:count] * np.float32(sum(map(self.weight, range(self.ranks))))


class _AllGather(Collective):
    """All ranks receive the parts of all ranks."""

    def fill(self, count: int) -> None:
        self.sent[self.part(count, self.rank)] = self.base[:count] * self.weight(self.rank)

    def run(self, count: int, *, in_place: bool) -> None:
        sent = MPI.IN_PLACE if in_place else [self.sent[self.part(count, self.rank)], MPI.FLOAT]
        self.comm.Allgather(sent, [self.got[: self.total(count)], MPI.FLOAT])

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        parts = [self.base[:count] * self.weight(rank) for rank in range(self.ranks)]
        return slice(0, self.total(count)), np.concatenate(parts)


class _ReduceScatter(Collective):
    """Each rank receives its part of the sum over all ranks."""

    redop = "sum"

    def fill(self, count: int) -> None:
        self.sent[: self.total(count)] = self.base[: self.total(count)] * self.weight(self.rank)

    def run(self, count: int, *, in_place: bool) -> None:
        if in_place:
            self.comm.Reduce_scatter_block(MPI.IN_PLACE, [self.got[: self.total(count)], MPI.FLOAT], op=MPI.SUM)
        else:
            sent = [self.sent[: self.total(count)], MPI.FLOAT]
            self.comm.Reduce_scatter_block(sent, [self.got[:count], MPI.FLOAT], op=MPI.SUM)

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        factor = np.float32(sum(map(self.weight, range(self.ranks))))
        return slice(0, count), self.base[self.part(count, self.rank)] * factor


class _AllToAll(Collective):
    """Each rank sends a different part to each rank."""

    def values(self, count: int, sender: int, receiver: int) -> np.ndarray:
        """Return the values that one rank sends to another."""
        return self.base[:count] + np.float32(PATTERN * (sender * self.ranks + receiver))

    def fill(self, count: int) -> None:
        for receiver in range(self.ranks):
            self.sent[self.part(count, receiver)] = self.values(count, self.rank, receiver)

    def run(self, count: int, *, in_place: bool) -> None:
        sent = MPI.IN_PLACE if in_place else [self.sent[: self.total(count)], MPI.FLOAT]
        self.comm.Alltoall(sent, [self.got[: self.total(count)], MPI.FLOAT])

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        parts = [self.values(count, sender, self.rank) for sender in range(self.ranks)]
        return slice(0, self.total(count)), np.concatenate(parts)


class _Broadcast(Collective):
    """All ranks receive the first rank's values. MPI broadcasts only in place, so both measurements are the same."""

    root = 0
    shared = False

    def busbw(self, algbw: float) -> float:
        return algbw

    def fill(self, count: int) -> None:
        self.sent[:count] = self.base[:count] * self.weight(PATTERN) if self.rank == self.root else 0

    def run(self, count: int, *, in_place: bool) -> None:
        if not in_place and self.rank == self.root:
            self.got[:count] = self.sent[:count]
        self.comm.Bcast([self.got[:count], MPI.FLOAT], root=self.root)

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        return slice(0, count), self.base[:count] * self.weight(PATTERN)


class _SendRecv(Collective):
    """Each rank sends to the next rank."""

    shared = False

    def busbw(self, algbw: float) -> float:
        return algbw

    def fill(self, count: int) -> None:
        self.sent[:count] = self.base[:count] * self.weight(self.rank)

    def run(self, count: int, *, in_place: bool) -> None:
        to, come = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        got = [self.got[:count], MPI.FLOAT]
        if in_place:
            self.comm.Sendrecv_replace(got, dest=to, source=come)
        else:
            self.comm.Sendrecv([self.sent[:count], MPI.FLOAT], dest=to, recvbuf=got, source=come)

    def received(self, count: int) -> tuple[slice, np.ndarray]:
        return slice(0, count), self.base[:count] * self.weight((self.rank - 1) % self.ranks)


COLLECTIVES = {
    "all_reduce": _AllReduce,
    "all_gather": _AllGather,
    "reduce_scatter": _ReduceScatter,
    "alltoall": _AllToAll,
    "broadcast": _Broadcast,
    "sendrecv": _SendRecv,
}


def options() -> argparse.Namespace:
    """Return the parsed options, which have the same names as in nccl-tests."""
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("collective", choices=COLLECTIVES)
    arg.add_argument("-b", "--minbytes", type=size, default=1 << 20)
    arg.add_argument("-e", "--maxbytes", type=size, default=64 << 20)
    arg.add_argument("-f", "--stepfactor", type=int, default=2)
    arg.add_argument("-n", "--iters", type=int, default=20, help="maximum number of repetitions of one size")
    arg.add_argument("-w", "--warmup_iters", type=int, default=1)
    arg.add_argument("-c", "--check", type=int, default=1)
    arg.add_argument(
        "-s", "--seconds", type=float, default=1.0, help="maximum time in seconds for the repetitions of one size"
    )
    arg.add_argument("--wrong-rank", type=int, default=-1, help="rank that corrupts one element of each result")
    chosen = arg.parse_args()
    if chosen.minbytes < 4 or chosen.maxbytes < chosen.minbytes or chosen.stepfactor < 2 or chosen.iters < 1:  # noqa: PLR2004
        arg.error("sizes: 4 <= minbytes <= maxbytes, stepfactor >= 2, iters >= 1")
    return chosen


def say(text: str) -> None:
    """Print and flush, so that the output of a killed run shows its progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def cpu_name() -> str:
    """Return the name of the processor, marked as a CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - the program stands alone
            name = next((line.split(":", 1)[1] for line in lines if line.startswith("model name")), "")
    except OSError:
        name = ""
    return "CPU " + (" ".join(name.split()) or platform.machine())


class Test:
    """Measures a collective for a range of sizes."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        """Allocate the buffers for the largest size."""
        self.chosen = chosen
        self.what = COLLECTIVES[chosen.collective](chosen.maxbytes // 4)
        self.comm, self.rank, self.ranks = self.what.comm, self.what.rank, self.what.ranks
        self.bad = 0
        self.busbw: list[float] = []

    def header(self) -> None:
        """Print the lines before the table."""
        chosen = self.chosen
        where = (platform.node().split(".")[0], os.getpid(), int(os.environ.get("SLURM_LOCALID", "0")), cpu_name())
        everyone = self.comm.gather(where, root=0)
        if everyone is None:
            return
        say(f"# Collective test starting: {chosen.collective}_perf")
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

    def first(self, count: int, *, in_place: bool) -> tuple[float, int]:
        """Run the collective once with new values; return the slowest rank's time and the number of wrong elements."""
        what = self.what
        what.sent[:], what.got[:] = 0, 0
        what.fill(count)
        if in_place:
            what.seed(count)
        self.comm.Barrier()
        start = time.perf_counter()
        what.run(count, in_place=in_place)
        took = time.perf_counter() - start
        place, expected = what.received(count)
        if self.chosen.wrong_rank == self.rank:
            what.got[place.start + expected.size // 2] += np.float32(1)
        wrong = int(np.count_nonzero(what.got[place] != expected)) if self.chosen.check else 0
        return self.comm.allreduce(took, op=MPI.MAX), int(self.comm.allreduce(wrong, op=MPI.SUM))

    def usual(self, count: int, first: float, *, in_place: bool) -> float:
        """Return the median duration of the repetitions on the slowest rank, in seconds.

        The median ignores short interruptions. If the first run was very slow, the function returns its time.
        """
        fit = min(self.chosen.iters, int(self.chosen.seconds / first)) if first > 0 else self.chosen.iters
        if fit < 1 and first > 2 * self.chosen.seconds:
            return first
        self.what.got[:] = 0
        for _ in range(self.chosen.warmup_iters - 1):
            self.what.run(count, in_place=in_place)
        self.comm.Barrier()
        times = []
        for _ in range(max(1, fit)):
            start = time.perf_counter()
            self.what.run(count, in_place=in_place)
            times.append(time.perf_counter() - start)
        return float(self.comm.allreduce(float(np.median(times)), op=MPI.MAX))

    def half(self, count: int, *, in_place: bool) -> str:
        """Measure one size, out of place or in place, and return its cells in the table."""
        first, wrong = self.first(count, in_place=in_place)
        took = self.usual(count, first, in_place=in_place)
        algbw = self.what.total(count) * 4 / took / 1e9
        busbw = self.what.busbw(algbw)
        self.busbw.append(busbw)
        self.bad += wrong > 0
        checked = str(wrong) if self.chosen.check else "N/A"
        return f" {took * 1e6:7.2f} {algbw:7.4f} {busbw:7.4f} {checked:>7s}"

    def run(self) -> int:
        """Print the table and return the exit code."""
        self.header()
        what, bytes_now = self.what, self.chosen.minbytes
        while bytes_now <= self.chosen.maxbytes:
            # Like nccl-tests, round parts down to multiples of 16 bytes.
            count = bytes_now // 4
            if what.shared:
                count = count // self.ranks // ALIGNED * ALIGNED
            halves = [self.half(count, in_place=in_place) for in_place in (False, True)]
            if self.rank == 0:
                start = f"{what.total(count) * 4:12d}{count:14d}{'float':>10s}{what.redop:>8s}{what.root:8d}"
                say(f"{start} {halves[0]} {halves[1]}")
            bytes_now *= self.chosen.stepfactor
        if self.rank == 0:
            say(f"# Out of bounds values : {self.bad} {'FAILED' if self.bad else 'OK'}")
            say(f"# Avg bus bandwidth    : {sum(self.busbw) / len(self.busbw):g} ")
            say(f"#\n# Collective test concluded: {self.chosen.collective}_perf")
        return 1 if self.bad else 0


def main() -> int:
    """Run the test; a failing rank aborts all ranks, which would otherwise wait forever."""
    chosen = options()
    time.sleep(WARM_UP_S)
    try:
        return Test(chosen).run()
    except Exception:  # noqa: BLE001 - on any error the other ranks must not hang
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(3)
        return 3


if __name__ == "__main__":
    sys.exit(main())
