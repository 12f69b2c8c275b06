"""What a playbook that runs needs beside Ansible: an end in two steps, signals, and its log."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

    from busbar.run.events import Run

__all__ = ["Cancel", "signals_to", "write_event"]

# A validation cancels its jobs and writes its report in that time.
_PATIENCE_S = 45.0


def write_event(stream: io.FileIO, run: Run, event: dict[str, Any]) -> None:
    """Write what an event printed to a log."""
    # An event's last line end may be cut in two.
    text = printable(str(event.get("stdout") or "").rstrip("\r\n"))
    try:
        stream.write(f"{text}\n".encode() if text else b"")
    except OSError as exc:
        # The hosts are not to be left half done because this one's disk is full.
        run.log_problem = exc.strerror or str(exc)


class Cancel:
    """Ends the playbook in two steps: it is asked to stop, and killed only when it does not."""

    def __init__(self, pid: Callable[[], int | None]) -> None:
        """Take what tells the process of the playbook, once it is known."""
        self._pid = pid
        self._since: float | None = None
        self._again = False

    @property
    def asked(self) -> bool:
        """Whether the user broke the run off."""
        return self._since is not None

    def ask(self, number: int, frame: object) -> None:
        """Take a signal: pass it on at the first time, insist at the second."""
        del number, frame
        if self._since is not None:
            self._again = True
            return
        self._since = time.monotonic()
        if (pid := self._pid()) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(os.getpgid(pid), signal.SIGINT)

    def __call__(self) -> bool:
        """Whether runner shall kill the playbook now."""
        if self._since is None:
            return False
        return self._again or self._pid() is None or time.monotonic() - self._since > _PATIENCE_S


@contextlib.contextmanager
def signals_to(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Give SIGINT and SIGTERM to a function for a while."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)
