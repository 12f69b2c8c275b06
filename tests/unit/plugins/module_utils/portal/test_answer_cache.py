"""Tests of answers that are cached for some seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.answer_cache import CachedAnswer, UserAnswers


class Asked:
    """A source of answers that counts its calls and can delay them."""

    def __init__(self) -> None:
        """Answer without delay."""
        self.count = 0
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.goes_on.set()

    async def ask(self) -> dict[str, Any]:
        """Return the number of this call."""
        self.count += 1
        number = self.count
        self.begun.set()
        await self.goes_on.wait()
        return {"number": number}


def test_concurrent_requests_share_one_call() -> None:
    async def play() -> tuple[list[dict[str, Any]], int]:
        asked = Asked()
        kept = CachedAnswer(asked.ask, 60)
        return await asyncio.gather(*(kept.get() for _ in range(200))), asked.count

    answers, count = asyncio.run(play())
    assert answers == [{"number": 1}] * 200
    assert count == 1


def test_answer_expires() -> None:
    async def play() -> list[int]:
        kept = CachedAnswer(Asked().ask, 0)
        first = await kept.get()
        await asyncio.sleep(0.01)
        return [first["number"], (await kept.get())["number"]]

    assert asyncio.run(play()) == [1, 2]


def test_answer_in_flight_during_a_change_is_not_cached() -> None:
    async def play() -> list[int]:
        asked = Asked()
        asked.goes_on.clear()
        kept = CachedAnswer(asked.ask, 60)
        first = asyncio.create_task(kept.get())
        await asked.begun.wait()
        kept.forget()
        asked.goes_on.set()
        return [(await first)["number"], (await kept.get())["number"], (await kept.get())["number"]]

    assert asyncio.run(play()) == [1, 2, 2]


def test_failed_call_is_repeated() -> None:
    count = 0

    async def ask() -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 1:
            raise OSError
        return {"number": count}

    async def play() -> dict[str, Any]:
        kept = CachedAnswer(ask, 60)
        with pytest.raises(OSError):  # noqa: PT011 - the one above
            await kept.get()
        return await kept.get()

    assert asyncio.run(play()) == {"number": 2}


def test_each_user_is_queried_once_with_limited_concurrency() -> None:
    async def play() -> tuple[list[str], int]:
        asked: list[str] = []
        now = most = 0

        async def ask(user: str) -> dict[str, Any]:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            asked.append(user)
            now -= 1
            return {"user": user}

        kept = UserAnswers(ask, 60, at_once=2, most=3)
        users = ["a", "b", "c", "a", "b", "c"] * 20
        answers = await asyncio.gather(*(kept.get(user) for user in users))
        assert [one["user"] for one in answers] == users
        await kept.get("d")  # evicts the least recent user
        await kept.get("c")
        await kept.get("a")
        return asked, most

    asked, most = asyncio.run(play())
    assert (sorted(asked), most) == (["a", "a", "b", "c", "d"], 2)
