"""Who of several processes that run one playbook may go on: play by play, and one at a time where it must be."""

from __future__ import annotations

import dataclasses

__all__ = ["GO", "STOP", "STOPPED", "Order"]

GO, STOP = "go", "stop"
STOPPED = 3
"""The exit code of a playbook that was told to stop."""


@dataclasses.dataclass
class _Slice:
    """How far a slice is.

    Attributes:
        play: the number of the play that it runs, -1 before the first.
        asks: the number of the play that it wants to begin, None while it runs one.
        together: whether the cluster's own slice need not be through with that play before.
        ended: whether it asks for nothing more.
    """

    play: int = -1
    asks: int | None = None
    together: bool = False
    ended: bool = False

    def past(self, play: int) -> bool:
        """Whether it is through with a play."""
        return self.ended or self.play > play or (self.asks is not None and self.asks > play)


class Order:
    """Lets a play begin when all slices are through with the one before, first on the cluster's own slice.

    As in one process, a play never meets a host that an earlier one has not yet configured. What a playbook does once
    for all hosts (`run_once`) is done by one slice at a time, so that what it notes on the provisioning host is whole.
    """

    def __init__(self, first: str, others: list[str]) -> None:
        """Take the names of the slices."""
        self._first = first
        self._slices = {name: _Slice() for name in (first, *others)}
        self._alone: list[str] = []
        self._told = ""
        self.stopped = False

    def begins(self, name: str) -> None:
        """A slice begins from the first play, once more if it was taken over."""
        self._slices[name] = _Slice()
        self.shares(name)

    def ends(self, name: str) -> None:
        """A slice has come to its end, or nobody takes it over."""
        self._slices[name].ended = True
        self.shares(name)

    def stop(self) -> None:
        """Let no slice begin another play, but those that look and change nothing."""
        self.stopped = True

    def asks_play(self, name: str, number: int, *, together: bool) -> None:
        """A slice wants to begin a play."""
        one = self._slices[name]
        one.asks, one.together = number, together

    def asks_alone(self, name: str) -> None:
        """A slice wants to do what is done once for all hosts."""
        if name not in self._alone:
            self._alone.append(name)

    def shares(self, name: str) -> None:
        """A slice is through with what was done once."""
        if self._told == name:
            self._told = ""
        if name in self._alone:
            self._alone.remove(name)

    def answers(self) -> list[tuple[str, str]]:
        """Return who is to be told what now; each is told once."""
        told = []
        for name, one in self._slices.items():
            if one.asks is None or not self._may(name, one):
                continue
            stop = self.stopped and not one.together
            told.append((name, STOP if stop else GO))
            if stop:
                one.ended = True
            one.play, one.asks = one.asks, None
        if self._alone and self._told != self._alone[0]:
            self._told = self._alone[0]
            told.append((self._told, GO))
        return told

    def _may(self, name: str, one: _Slice) -> bool:
        number = one.asks or 0
        if not all(other.past(number - 1) for other in self._slices.values()):
            return False
        return name == self._first or one.together or self._slices[self._first].past(number)
