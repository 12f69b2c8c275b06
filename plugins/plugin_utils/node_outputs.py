"""Fetch files from nodes in pieces, each file in a separate process, with limits on size and time.

A compromised node must not be able to exhaust the memory, disk space or time of the provisioning host.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shlex
import signal
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess
    from pathlib import Path

PIECE = 4 << 20
_HEAD = b"busbar-output "
_LONGEST_HEAD = 1 << 16
_PIECE_S = 120
# Additional memory of a process that fetches a file, more than a piece requires.
_MEMORY = 512 << 20
_LONGEST_PROBLEM = 300
_PAUSE_S = 0.05


class Node(Protocol):
    """A connection to a node."""

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a shell script as root; return exit code, stdout and stderr."""


class Wanted(NamedTuple):
    """A file to fetch: its host, its path there, and the local target."""

    host: str
    path: str
    target: Path


class Bounds(NamedTuple):
    """Limits of a transfer.

    Attributes:
        size: bytes of one file.
        seconds: seconds for all files together.
        at_once: number of parallel transfers.
    """

    size: int
    seconds: float
    at_once: int = 16


def fetch(
    wanted: list[Wanted], node: Callable[[str], Node], user: str, bounds: Bounds, too_long: str
) -> dict[Path, str]:
    """Save files and delete them on their nodes; return the error for each file by target, '' on success.

    Existing targets are skipped. A file is deleted on its node when its copy is complete. An incomplete file is kept
    next to its target as NAME.part.

    Args:
        wanted: the files.
        node: returns the connection to a host.
        user: owner of the files, as whom they are read: root would follow symbolic links of this user to other files.
        bounds: limits of the transfer.
        too_long: error for a file beyond the size limit.
    """
    context = multiprocessing.get_context("fork")
    problems = {item.target: "" if item.target.exists() else "it timed out" for item in wanted}
    until = time.monotonic() + bounds.seconds
    waiting = [item for item in wanted if problems[item.target]]
    running: dict[Pipe, tuple[ForkProcess, Wanted]] = {}
    try:
        while (waiting or running) and time.monotonic() < until:
            while waiting and len(running) < bounds.at_once:
                item = waiting.pop(0)
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(there, item, node, user, bounds.size, too_long))
                process.start()
                there.close()
                running[here] = (process, item)
            ready = wait(list(running), timeout=max(_PAUSE_S, until - time.monotonic()))
            for pipe in [pipe for pipe in running if pipe in ready]:
                process, item = running.pop(pipe)
                problems[item.target] = _result(pipe)
                process.join()
    finally:
        for process, _item in running.values():
            _kill(process)
    for part in map(_part, problems):
        if part.is_file() and not part.stat().st_size:
            part.unlink()
    return problems


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _result(pipe: Pipe) -> str:
    try:
        return str(pipe.recv())
    except (EOFError, OSError):
        return "the transfer process failed"
    finally:
        pipe.close()


def _kill(process: ForkProcess) -> None:
    """Kill a process and its process group."""
    if process.pid is not None:
        for number in (process.pid, -process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
    process.join()


def _child(  # noqa: PLR0913, PLR0917 - multiprocessing passes them by position
    pipe: Pipe, item: Wanted, node: Callable[[str], Node], user: str, most: int, too_long: str
) -> None:
    """Fetch one file in the child process, and send the error to the parent through the pipe."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        with _little_memory():
            problem = _fetched(item, node(item.host), user, most, too_long)
    except MemoryError:
        problem = "it sent more data than requested"
    except BaseException as exc:  # noqa: BLE001 - the parent reports any error
        problem = " ".join(str(exc).split())[:_LONGEST_PROBLEM] or type(exc).__name__
    pipe.send(problem)
    pipe.close()


@contextlib.contextmanager
def _little_memory() -> Iterator[None]:
    """Limit the address space of this process to its current size plus _MEMORY."""
    pages = int(open("/proc/self/statm", encoding="ascii").read().split()[0])  # noqa: PTH123, SIM115 - before the limit
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _fetched(item: Wanted, node: Node, user: str, most: int, too_long: str) -> str:
    """Return the error from fetching a file, or '' on success."""
    at, problem, part = 0, "", _part(item.target)
    with part.open("wb") as file:
        part.chmod(0o644)
        while True:
            size, data = fetch_piece(node, user, item.path, at, min(PIECE, most - at))
            file.write(data)
            at += len(data)
            if at >= size:
                break
            if at >= most:
                problem = too_long
                break
            if not data:
                return "the transfer was incomplete"
    part.replace(item.target)
    # The transfer is successful even if the file cannot be deleted on the node.
    with contextlib.suppress(Exception):
        node.run(f"rm -f -- {shlex.quote(item.path)}\n")
    return problem


def fetch_piece(node: Node, user: str, path: str, at: int, count: int) -> tuple[int, bytes]:
    """Return the size of a file on a node, and up to `count` of its bytes from offset `at`.

    Raises:
        ValueError: if the node does not return them.
    """
    inner = (
        '[ -f "$0" ] && s=$(stat -Lc %s -- "$0") && printf "busbar-output %s\\n" "$s" && '
        f'exec dd if="$0" bs=64K iflag=skip_bytes,count_bytes,fullblock skip={at} count={count} status=none'
    )
    name = shlex.quote(user)
    become = f'setpriv --reuid={name} --regid="$(id -g -- {name})" --init-groups'
    code, out, err = node.run(f"exec timeout {_PIECE_S} {become} sh -c {shlex.quote(inner)} {shlex.quote(path)}\n")
    # A login shell or the become method may print text before the header.
    start = out.find(_HEAD, 0, _LONGEST_HEAD)
    end = out.find(b"\n", start)
    if code or start < 0 or end < 0:
        error = " ".join(err.decode(errors="replace").split())[-_LONGEST_PROBLEM:]
        message = error or f"it could not be read (exit code {code})"
        raise ValueError(message)
    size, data = out[start + len(_HEAD) : end], out[end + 1 :]
    if not size.isdigit() or len(data) > count:
        message = "it sent an unexpected answer"
        raise ValueError(message)
    if len(data) < min(count, int(size) - at):
        message = "the transfer was incomplete"
        raise ValueError(message)
    return int(size), data
