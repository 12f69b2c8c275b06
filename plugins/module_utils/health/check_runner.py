"""Run checks in parallel, each in a separate process with a time limit.

A process that hangs in the kernel (unreachable file server, driver) cannot be killed, and waiting for it would block
the caller. So it gets SIGKILL and is abandoned.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .finding import Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["answers"]

_MOST_BYTES = 1 << 20


class _Child(NamedTuple):
    """A running check: process, pipe for its answer, and deadline."""

    number: int
    pipe: int
    deadline: float


def answers(checks: Mapping[str, tuple[Callable[[], Answer], float]]) -> dict[str, Answer | None]:
    """Return the answer of each check; None for a check that was abandoned at its time limit.

    Args:
        checks: function and limit in seconds by name. If a check raises, its answer is the error.
    """
    running = {name: _start(function, limit_s) for name, (function, limit_s) in checks.items()}
    texts: dict[str, bytes] = dict.fromkeys(running, b"")
    done: dict[str, Answer | None] = {}
    while len(done) < len(running):
        waiting = {child.pipe: name for name, child in running.items() if name not in done}
        now = time.monotonic()
        until = min(running[name].deadline for name in waiting.values())
        ready, _, _ = select.select(list(waiting), [], [], max(0.0, until - now))
        for pipe in ready:
            name = waiting[pipe]
            part = os.read(pipe, 1 << 16)
            texts[name] += part
            if not part or len(texts[name]) > _MOST_BYTES:
                done[name] = _read(texts[name])
        for name in waiting.values():
            if name not in done and time.monotonic() >= running[name].deadline:
                done[name] = None
    for child in running.values():
        os.close(child.pipe)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.number, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.number, os.WNOHANG)
    return done


def _start(function: Callable[[], Answer], limit_s: float) -> _Child:
    """Start a check in a process with a new process group."""
    ours, theirs = os.pipe()
    number = os.fork()
    if number:
        os.close(theirs)
        with contextlib.suppress(OSError):
            os.setpgid(number, number)
        return _Child(number, ours, time.monotonic() + limit_s)
    try:
        os.setpgid(0, 0)
        os.close(ours)
        with os.fdopen(theirs, "wb") as stream:
            stream.write(json.dumps(_run_check(function)).encode())
    finally:
        os._exit(0)


def _run_check(function: Callable[[], Answer]) -> dict[str, Any]:
    try:
        return function()._asdict()
    except Exception as exc:  # noqa: BLE001 - a failed check must not stop the others
        return Answer(unknown=f"{type(exc).__name__}: {exc}")._asdict()


def _read(text: bytes) -> Answer:
    try:
        found = json.loads(text)
        findings, events = ([Finding(*each) for each in found[key]] for key in ("findings", "events"))
        return Answer(findings, dict(found["samples"]), events, str(found["unknown"]))
    except (KeyError, TypeError, ValueError):
        return Answer(unknown="the check exited without a result")
