"""Creates, grows and removes sandboxes for benchmarks.

The nodes share the cores of this machine with the provisioning host, so the cost of an additional node includes its own
work.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.sandbox.state import MAX_COMPUTE, sandbox_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from busbar.sandbox.state import Sandbox

# A short validation, because the benchmark measures busbar and not the links.
QUICK = (
    *("-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2"),
    *("-e", "validation_floor_gbs=0.0001"),
)
_COMMAND_S = 3600
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)", re.MULTILINE)


class Spent(NamedTuple):
    """Duration of a command in seconds, its CPU seconds on the provisioning host, and its output."""

    wall: float
    cpu: float
    output: str


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add the option for the name."""
    parser.add_argument("--name", default="benchmark", metavar="NAME", help="name of the sandbox, which must not exist")


def add_compute(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of compute nodes."""
    parser.add_argument("--compute", default="2", metavar="N", help="compute nodes beside ctl and login; default 2")


def compute(args: argparse.Namespace) -> int:
    """Return the chosen number of compute nodes.

    Raises:
        UsageError: a sandbox cannot have this number.
    """
    return whole("--compute", str(args.compute), 2, MAX_COMPUTE)


def sizes(text: str) -> list[int]:
    """Return increasing numbers of compute nodes.

    Raises:
        UsageError: the numbers are invalid or not increasing.
    """
    found = [whole("--sizes", word, 2, MAX_COMPUTE - 1) for word in text.split(",")]
    if found != sorted(set(found)):
        message = f"--sizes: {text}: use sizes in ascending order, such as 2,4,8,16"
        raise UsageError(message)
    return found


@contextmanager
def sandbox(name: str) -> Iterator[Path]:
    """Yield the inventory path of a sandbox that the caller creates, and remove the sandbox afterwards.

    Raises:
        UsageError: a sandbox with that name exists, which may be in use.
    """
    path = sandbox_path(name)
    if path.exists():
        message = f"sandbox {name} already exists: busbar sandbox down --name {name}, or use another --name"
        raise UsageError(message)
    try:
        yield path / "inventory"
    finally:
        subprocess.run(
            ["busbar", "sandbox", "down", "--name", name], check=False, capture_output=True, stdin=subprocess.DEVNULL
        )


def timed(*words: str) -> Spent:
    """Run a busbar command and measure it.

    Raises:
        ValueError: the command failed.
    """
    began, used = time.monotonic(), cpu()
    output = busbar(*words)
    return Spent(time.monotonic() - began, cpu() - used, output)


def busbar(*words: str) -> str:
    """Run a busbar command and return its output; the name of the command is printed on standard error.

    Raises:
        ValueError: the command failed or timed out after an hour.
    """
    shown = f"busbar {' '.join(words[:4])}"
    print(f"benchmark: {shown} …", file=sys.stderr, flush=True)
    # A file instead of a pipe, because background processes of the command would keep a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        try:
            done = subprocess.run(
                ["busbar", *words],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=_COMMAND_S,
            )
        except subprocess.TimeoutExpired as exc:
            message = f"{shown} did not finish within {_COMMAND_S} s: {_end_of(out)}"
            raise ValueError(message) from exc
        if done.returncode:
            message = f"{shown} exited with status {done.returncode}: {_end_of(out)}"
            raise ValueError(message)
        out.seek(0)
        return out.read()


def printed(cluster: Sandbox, node: str, command: str) -> bytes:
    """Run a shell command on a node and return its output.

    Raises:
        ValueError: the command failed.
    """
    done = subprocess.run(
        ["podman", "exec", cluster.container(node), "sh", "-c", command],
        check=False,
        capture_output=True,
    )
    if done.returncode:
        output = done.stderr.decode(errors="replace")[-500:]
        message = f"{node}: a command failed with exit code {done.returncode}: {output}"
        raise ValueError(message)
    return done.stdout


def recap(output: str) -> dict[str, tuple[int, int]]:
    """Return the number of executed and of changed tasks of each host.

    Raises:
        ValueError: the output has no recap.
    """
    found = {host: (int(ran), int(changed)) for host, ran, changed in _RECAP.findall(output)}
    if not found:
        message = f"the run printed no play recap: {output[-2000:]}"
        raise ValueError(message)
    return found


def _end_of(out: IO[str]) -> str:
    out.seek(0)
    return out.read()[-2000:]


def cpu() -> float:
    """Return the CPU seconds of all terminated child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
