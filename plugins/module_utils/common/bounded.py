"""Calls that may never come back, such as a look at a file of a server that is gone."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bounded"]


def bounded(what: Callable[[], Any], timeout_s: float) -> Any:  # noqa: ANN401 - returns what the call returns
    """Return what a call returns, in its own thread, which is left behind when it takes too long.

    Raises:
        TimeoutError: when it took too long.
        OSError: what the call raised.
    """
    result: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def work() -> None:
        try:
            result.set_result(what())
        except OSError as exc:
            result.set_exception(exc)

    threading.Thread(target=work, daemon=True).start()
    try:
        return result.result(timeout_s)
    except concurrent.futures.TimeoutError as exc:
        message = f"no answer within {timeout_s:.0f} s"
        raise TimeoutError(message) from exc
