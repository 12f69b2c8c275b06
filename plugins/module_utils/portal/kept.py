"""An answer that many ask for: asked once, and kept for some seconds."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Kept"]


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
