"""Convert signals to an exception, so that an action can clean up when its run is interrupted.

Without a handler, the signals that ansible-playbook forwards end its workers immediately. ansible-playbook waits for
its workers before it exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from .engine.validation.cluster_access import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Raises Interrupted at the first signal, and ignores later ones."""

    def __init__(self, signals: Sequence[signal.Signals] = _SIGNALS) -> None:
        """Store the parent process ID; the context manager is reentrant."""
        self._parent = os.getppid()
        self._signals = signals
        self._before: list[dict[int, Any]] = []
        self._held = 0
        self._raised = False
        self.why = ""

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        self._before.append({number: signal.signal(number, self._take) for number in self._signals})
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous signal handlers."""
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
        """Raise Interrupted if ansible-playbook has exited, because then no signal arrives.

        Raises:
            Interrupted: if ansible-playbook has exited.
        """
        if os.getppid() != self._parent:
            self.why = self.why or "interrupted: ansible-playbook has exited"
            self._raise()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Defer interruptions until the end of the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self._raise()
