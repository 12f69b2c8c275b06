"""The process that runs one slice: takes a job as a line of JSON, tells what happens in lines of JSON.

The same one runs here and, started over SSH, on another host. Its end is the end of the playbook that it runs: when
whoever started it is gone, nobody goes on with hosts that another has taken over.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.slice_link import SOCKET

from busbar.paths import collection
from busbar.run.execution import Cancel
from busbar.run.playbook import Playbook, callbacks_with, execute
from busbar.run.slices import carried
from busbar.run.slices.same import program

__all__ = ["LEASE_S", "main"]

LEASE_S = 30.0
"""A slice on another host that hears nothing for so long ends itself; whoever takes over waits for that."""


class _Worker:
    """One slice."""

    def __init__(self, commands: IO[bytes], out: IO[bytes], folder: Path) -> None:
        self._commands, self._out, self._folder = commands, out, folder
        self._lock = threading.Lock()
        self._answers: queue.Queue[str] = queue.Queue()
        self._pid: int | None = None
        self._group: int | None = None
        self._cancel = Cancel(lambda: self._pid)
        self._heard = time.monotonic()
        self._ended: dict[str, Any] = {}
        self._site: Path | None = None
        self._seen: dict[str, str] = {}

    def tell(self, **what: Any) -> None:  # noqa: ANN401 - whatever JSON takes
        with self._lock, suppress(OSError):
            self._out.write(f"{json.dumps(what, default=str)}\n".encode())
            self._out.flush()

    def run(self) -> None:
        job = json.loads(self._commands.readline() or b"{}")
        if not job:
            return
        playbook = self._playbook(job)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._folder / "socket"))
        listener.listen(1)
        # Here the end of the commands tells; a connection may be silent for long before it ends.
        watches = [self._watches] if self._site is not None else []
        for work in (self._listens, *watches, lambda: self._serves(listener)):
            threading.Thread(target=work, daemon=True).start()
        returned = execute(playbook, self._event, self._cancel)
        if not self._ended and self._group is not None and self._group != os.getpgrp():
            # Killed: what was forked from it goes on with its task.
            with suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
        self.tell(end=returned, told=self._ended, cancelled=self._cancel.asked, files=self._changes())

    def _playbook(self, job: dict[str, Any]) -> Playbook:
        """Return what is to run, with the site put where it can be read."""
        inventory = job["inventory"]
        if job.get("site") is not None:
            self._site = self._folder / "site"
            carried.apply(self._site, job["site"])
            self._seen = carried.looks(self._site)
            inventory = [str(self._site / source) for source in inventory]
        limit = self._folder / "limit"
        limit.write_text("".join(f"{host}\n" for host in job["limit"]), encoding="utf-8")
        path = Path(job["playbook"])
        return Playbook(
            path if path.is_absolute() else collection() / "playbooks" / path,
            inventory,
            [*job["options"], "--limit", f"@{limit}"],
            job["passwords"],
            job["command"],
            job["environment"]
            | {SOCKET: str(self._folder / "socket"), "ANSIBLE_CALLBACKS_ENABLED": callbacks_with(inventory)},
        )

    def _event(self, event: dict[str, Any]) -> None:
        if self._pid is None and isinstance(event.get("pid"), int):
            self._pid = event["pid"]
            with suppress(ProcessLookupError):
                self._group = os.getpgid(event["pid"])
        self.tell(event=event)

    def _listens(self) -> None:
        """Take commands until there is nobody who could give any."""
        for line in self._commands:
            self._heard = time.monotonic()
            command = json.loads(line)
            if "files" in command and self._site is not None:
                carried.apply(self._site, command["files"])
                self._seen = carried.looks(self._site)
            if "answer" in command:
                self._answers.put(command["answer"])
            elif "cancel" in command:
                self._cancel.ask(signal.SIGINT, None)
        self._abandon()

    def _watches(self) -> None:
        while time.monotonic() - self._heard < LEASE_S:
            time.sleep(1)
        self._abandon()

    def _abandon(self) -> None:
        """Kill the playbook: whoever asked for it is gone."""
        if self._group is not None and self._group != os.getpgrp():
            with suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(1)

    def _serves(self, listener: socket.socket) -> None:
        """Hand on what the playbook's process asks."""
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                what = json.loads(line)
                if what.get("ended"):
                    self._ended = what
                    continue
                self.tell(**what, files=self._changes())
                if "shared" not in what:
                    connection.sendall(f"{self._answers.get()}\n".encode())

    def _changes(self) -> carried.Files:
        """Return what the run has written into its copy of the site since both sides were last the same."""
        if self._site is None:
            return {}
        now = carried.looks(self._site)
        names, self._seen = carried.changed(self._seen, now), now
        return carried.contents(self._site, names)


def main() -> int:
    """Run one slice."""
    # What Ansible or a library prints must not come between.
    out, commands = os.fdopen(os.dup(1), "wb", 0), os.fdopen(os.dup(0), "rb", 0)
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.umask(0o077)
    folder = Path(tempfile.mkdtemp(prefix="busbar-slice-"))
    # A lost login is told by the end of the commands, Ctrl-C by whoever started this. To ignore the signals would have
    # Ansible ignore them, too.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        worker = _Worker(commands, out, folder)
        worker.tell(hello=program())
        worker.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
