"""Cache the answers of frequent requests to Slurm."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["CachedAnswer", "UserAnswers"]


class CachedAnswer:
    """A cached answer, shared by all callers during its lifetime.

    Args:
        ask: makes the request; its exceptions propagate to the waiting caller.
        seconds: lifetime of an answer, from the start of the request.
    """

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]], seconds: float) -> None:
        """Start with an empty cache."""
        self._ask, self._seconds = ask, seconds
        self._lock = asyncio.Lock()
        self._answer: dict[str, Any] = {}
        self._queried_at = self._changed = float("-inf")

    async def get(self) -> dict[str, Any]:
        """Return the cached answer, or request a new one."""
        async with self._lock:
            now = time.monotonic()
            if self._queried_at <= self._changed or now - self._queried_at > self._seconds:
                self._answer = await self._ask()
                self._queried_at = now
            return self._answer

    def forget(self) -> None:
        """Discard the answers to all earlier requests, including those in progress."""
        self._changed = time.monotonic()


class UserAnswers:
    """Cached answers for each user, with limited concurrency.

    Args:
        ask: makes the request for a user.
        seconds: lifetime of an answer.
        at_once: maximum number of concurrent requests.
        most: maximum number of users in the cache; the least recently used are dropped.
    """

    def __init__(
        self, ask: Callable[[str], Awaitable[dict[str, Any]]], seconds: float, at_once: int = 4, most: int = 1000
    ) -> None:
        """Start with an empty cache."""
        self._ask, self._seconds, self._most = ask, seconds, most
        self._free = asyncio.Semaphore(at_once)
        self._kept: dict[str, CachedAnswer] = {}

    async def get(self, user: str) -> dict[str, Any]:
        """Return a user's cached answer, or request a new one."""

        async def ask() -> dict[str, Any]:
            async with self._free:
                return await self._ask(user)

        kept = self._kept.pop(user) if user in self._kept else CachedAnswer(ask, self._seconds)
        self._kept[user] = kept
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return await kept.get()
