"""Lets an action end in good order when its run is broken off.

Ansible's worker dies at once of the signals that ansible-playbook passes on, with nothing cleaned up. What uses this
takes them itself, and has the time that ansible-playbook gives it: that waits at its own end for its workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from .engine.validation.transport import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Turns the first signal into an exception; later ones change nothing."""

    def __init__(self, signals: Sequence[signal.Signals] = _SIGNALS) -> None:
        """Remember the parent process; as a context manager it may be entered within itself."""
        self._parent = os.getppid()
        self._signals = signals
        self._before: list[dict[int, Any]] = []
        self._held = 0
        self._raised = False
        self.why = ""

    def __enter__(self) -> Self:
        """Take the signals."""
        self._before.append({number: signal.signal(number, self._take) for number in self._signals})
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.pop().items():
            signal.signal(number, handler)

    def _take(self, number: int, _frame: object) -> None:
        self.why = self.why or f"interrupted by {signal.Signals(number).name}"
        self._raise()

    def _raise(self) -> None:
        if self.why and not self._held and not self._raised:
            self._raised = True
            raise Interrupted(self.why)

    def look(self) -> None:
        """Notice that ansible-playbook has gone, which says so to nobody.

        Raises:
            Interrupted: it has.
        """
        if os.getppid() != self._parent:
            self.why = self.why or "interrupted: ansible-playbook has ended"
            self._raise()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Defer an interruption to the end of the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self._raise()
