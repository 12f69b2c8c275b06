"""Answers that are asked for often: asked once, and kept for some seconds."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Kept", "KeptEach"]


class Kept:
    """What a question is answered with, for all who ask within some seconds.

    Args:
        ask: asks; what it raises reaches who waits for the answer.
        seconds: how long an answer is kept, from when it was asked for.
    """

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]], seconds: float) -> None:
        """Ask nothing yet."""
        self._ask, self._seconds = ask, seconds
        self._lock = asyncio.Lock()
        self._answer: dict[str, Any] = {}
        self._asked = self._changed = float("-inf")

    async def get(self) -> dict[str, Any]:
        """The answer."""
        async with self._lock:
            now = time.monotonic()
            if self._asked <= self._changed or now - self._asked > self._seconds:
                self._answer = await self._ask()
                self._asked = now
            return self._answer

    def forget(self) -> None:
        """Keep no answer to what was asked before now, also when it is still on its way."""
        self._changed = time.monotonic()


class KeptEach:
    """What one question is answered with for each user, asked for a few of them at a time.

    Args:
        ask: asks for a user.
        seconds: how long an answer is kept.
        at_once: for how many users it is asked at the same time.
        most: of how many users answers are kept, those who asked last.
    """

    def __init__(
        self, ask: Callable[[str], Awaitable[dict[str, Any]]], seconds: float, at_once: int = 4, most: int = 1000
    ) -> None:
        """Ask nothing yet."""
        self._ask, self._seconds, self._most = ask, seconds, most
        self._free = asyncio.Semaphore(at_once)
        self._kept: dict[str, Kept] = {}

    async def get(self, user: str) -> dict[str, Any]:
        """The answer for a user."""

        async def ask() -> dict[str, Any]:
            async with self._free:
                return await self._ask(user)

        kept = self._kept.pop(user) if user in self._kept else Kept(ask, self._seconds)
        self._kept[user] = kept
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return await kept.get()
