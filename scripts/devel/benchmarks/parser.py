"""Parses an nccl-tests table in a log that consists mostly of NCCL debug output.

The log is generated on the fly and written to a pipe. Another process reads it, as `busbar nccl parse` reads a file,
and measures itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any, cast

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_stream
from busbar.option_values import whole

from devel.benchmark_figures import Figure, Goal, peak_kib

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

GOALS = (Goal("throughput_per_cpu", ">=", 150), Goal("peak_memory", "<=", 64))

_MIB = 1 << 20
_MOST_MIB = 1 << 20
_SIZES = [8 << i for i in range(31)]
_RANKS = 16
_HEAD = [
    "# nccl-tests version 2.18.3 nccl-headers=22907 nccl-library=22907",
    "# Collective test starting: all_reduce_perf",
    f"# nThread 1 nGpus 1 minBytes {_SIZES[0]} maxBytes {_SIZES[-1]} step: 2(factor) warmup iters: 1 iters: 20",
    "# Using devices",
    *(f"#  Rank {i:2} Group  0 Pid {i} on gpu{i // 8} device {i % 8} [0000:19:00] NVIDIA H100" for i in range(_RANKS)),
    f"#       size         count      type   redop    root {2 * '     time   algbw   busbw  #wrong'}",
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--mib", default="1024", metavar="N", help="size of the log in MiB; default 1024")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures of one log.

    Raises:
        UsageError: the size is not an integer.
        ValueError: a part of the table is missing in the result.
    """
    mib = whole("--mib", args.mib, 1, _MOST_MIB)
    answer = _run_reader(mib * _MIB)
    size = answer["characters"] / 1e6
    yield Figure("size", round(size, 1), "MB")
    yield Figure("throughput", round(size / answer["seconds"], 1), "MB/s")
    yield Figure("throughput_per_cpu", round(size / answer["cpu_seconds"], 1), "MB/s")
    yield Figure("peak_memory", round(answer["peak_kib"] / 1024, 1), "MiB")
    yield Figure("rows", len(answer["rows"]), "rows")
    if (answer["runs"], answer["outcome"], answer["rows"]) != (1, "ok", [[size, _busbw(size)] for size in _SIZES]):
        message = f"the table is incomplete: {answer['runs']} runs, {len(answer['rows'])} rows, {answer['outcome']}"
        raise ValueError(message)


def _run_reader(size: int) -> dict[str, Any]:
    """Parse a log of this size in bytes in a separate process, and return its result."""
    written = 0
    with subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        with contextlib.suppress(BrokenPipeError), cast("IO[bytes]", reader.stdin) as pipe:
            for chunk in _log(size):
                written += pipe.write(chunk)
        answer = cast("IO[bytes]", reader.stdout).read()
    if reader.returncode:
        message = f"the reader failed with exit code {reader.returncode}"
        raise ValueError(message)
    return dict(json.loads(answer)) | {"characters": written}


def _busbw(size: int) -> float:
    return round(_algbw(size) * 2 * (_RANKS - 1) / _RANKS, 2)


def _algbw(size: int) -> float:
    return 213 * size / (size + (1 << 24))


def _log(size: int) -> Iterator[bytes]:
    """Yield a log of about this size in bytes: a table with equal noise before, between and after its lines."""
    rows = []
    for row in _SIZES:
        half = f"{row / 1e3 / _algbw(row):.2f} {_algbw(row):.2f} {_busbw(row):.2f} 0"
        rows.append(f"{row:14} {row // 4:14} float sum -1 {half} {half}")
    average = sum(map(_busbw, _SIZES)) / len(_SIZES)
    table = [*_HEAD, *rows, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average:g}"]
    noise = _noise()
    share = size / (len(table) + 1)
    written = 0
    for place, line in enumerate([*table, ""]):
        while written < share * (place + 1):
            yield noise
            written += len(noise)
        yield f"{line}\n".encode()


def _noise() -> bytes:
    """Return about 16 KiB of output as with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=ALL."""
    lines = []
    for i in range(32):
        who = f"gpu{i % 8}:{40_000 + i}:{41_000 + i} [{i % 8}] NCCL INFO"
        lines += [
            f"{who} AllReduce: opCount {i:x} sendbuff 0x7f{i:010x} recvbuff 0x7e{i:010x} count {i << 20} op 0",
            f"{who} Channel {i % 16:02}/0 : {i}[{i % 8}] -> {i + 1}[{(i + 1) % 8}] [send] via NET/IB/{i % 8}/GDRDMA",
            f"{who} Trees [0] {i + 1}/-1/-1->{i}->-1 [1] {i + 1}/-1/-1->{i}->-1",
            f"[1,{i}]<stdout>:{who} comm 0x{i:012x} rank {i} nranks {_RANKS} cudaDev {i % 8} - Init COMPLETE",
        ]
    return "".join(f"{line}\n" for line in lines).encode()


def _read() -> None:
    """Parse a log from standard input, and print the result and its cost."""
    began = time.monotonic()
    text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="replace")
    runs = parse_stream(text)["runs"]
    answer = {
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time(),
        "peak_kib": peak_kib(),
        "runs": len(runs),
        "outcome": runs[0]["outcome"],
        "rows": [[row["size"], (row["out_of_place"] or {}).get("busbw")] for row in runs[0]["rows"]],
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _read()
