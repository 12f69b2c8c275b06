"""Starts the process of a slice, here or on another host, and talks with it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.run.slices.same import program

if TYPE_CHECKING:
    import queue
    from collections.abc import Sequence

__all__ = ["HERE", "Link", "check_places"]

HERE = ""
"""The place that is this host."""
_MODULE = "busbar.run.slices.worker"
# Nobody is asked for anything, and a host that is away is noticed.
_SSH = (
    "ssh",
    "-T",
    *("-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
# The same Python as here; else that of the command busbar there.
_REMOTE = (
    'p={python}; [ -x "$p" ] || p=$(sed -n "1s/^#!//p" "$(command -v busbar)" 2>/dev/null); '
    '[ -x "$p" ] || {{ echo "there is no busbar" >&2; exit 127; }}; exec "$p" -m {module}'
)
_HELLO_S = 60
_LINES = 5


class Link:
    """A process that runs a slice, and what it says."""

    def __init__(self, name: str, place: str, inbox: queue.Queue[tuple[Link, dict[str, Any] | None]]) -> None:
        """Start it.

        Args:
            name: of the slice.
            place: an SSH destination, or HERE.
            inbox: takes what it says, and None when it says nothing more.
        """
        self.name, self.place = name, place
        self.pid: int | None = None
        self._inbox = inbox
        self._said: list[str] = []
        command = [sys.executable, "-m", _MODULE] if place == HERE else _remote(place)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for the command alone, which hands it on.
            start_new_session=True,
        )
        for work in (self._reads, self._hears):
            threading.Thread(target=work, daemon=True).start()

    @property
    def trouble(self) -> str:
        """The last that it said on its standard error."""
        return " ".join(" ".join(self._said[-_LINES:]).split())[:500]

    def send(self, **what: Any) -> None:  # noqa: ANN401 - whatever JSON takes
        """Say something to it; that it is gone is told by its end."""
        with suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.write(f"{json.dumps(what)}\n".encode())
                self._process.stdin.flush()

    def close(self) -> None:
        """End it, and what it runs on this host."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # When it was killed itself its playbook may have outlived it.
        if self.place == HERE and self.pid is not None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _reads(self) -> None:
        if self._process.stdout is not None:
            for line in self._process.stdout:
                with suppress(ValueError):
                    self._inbox.put((self, json.loads(line)))
        self._inbox.put((self, None))

    def _hears(self) -> None:
        if self._process.stderr is not None:
            for line in self._process.stderr:
                self._said.append(line.decode(errors="replace"))
                del self._said[:-_LINES]


def check_places(places: Sequence[str]) -> None:
    """Look whether each host named can be reached, and has the same busbar.

    Raises:
        UsageError: names the first that cannot be used, and what to do.
    """
    where: dict[str, str] = {}
    for place in places:
        real = _destination(place)
        if real in where:
            message = f"--on {place}: is the same host as --on {where[real]}; name each once"
            raise UsageError(message)
        where[real] = place
    here = program()
    for place in places:
        there = _hello(place)
        if there != here:
            message = (
                f"--on {place}: has another busbar ({_words(there)}) than this host ({_words(here)}): install the same "
                "commit with the same scripts/setup there"
            )
            raise UsageError(message)


def _words(found: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in found.items())


def _remote(place: str) -> list[str]:
    return [*_SSH, "--", place, _REMOTE.format(python=shlex.quote(sys.executable), module=_MODULE)]


def _destination(place: str) -> str:
    """Return user, host and port as ssh understands a destination.

    Raises:
        UsageError: it understands none.
    """
    if not place or place.startswith("-") or any(letter.isspace() for letter in place):
        message = f"--on {place!r}: is no SSH destination; write HOST, USER@HOST, or ssh://USER@HOST:PORT"
        raise UsageError(message)
    said = subprocess.run(["ssh", "-G", "--", place], capture_output=True, text=True, check=False)
    if said.returncode:
        message = f"--on {place}: is no SSH destination: {' '.join(said.stderr.split())[:200]}"
        raise UsageError(message)
    lines = said.stdout.splitlines()
    return " ".join(sorted(line for line in lines if line.split()[0] in {"user", "hostname", "port"}))


def _hello(place: str) -> dict[str, str]:
    """Return what busbar another host has.

    Raises:
        UsageError: it cannot be reached, or has none.
    """
    problem = ""
    try:
        said = subprocess.run(
            _remote(place), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_HELLO_S
        )
        for line in said.stdout.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                return {str(key): str(value) for key, value in json.loads(line)["hello"].items()}
        problem = " ".join(said.stderr.split())[-300:] or f"exit code {said.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"no answer in {_HELLO_S} s"
    message = (
        f"--on {place}: cannot be used: {problem}. It must be reached with `ssh {place}` without a question, and have "
        "busbar at the same path as this host, or as the command `busbar`"
    )
    raise UsageError(message)
