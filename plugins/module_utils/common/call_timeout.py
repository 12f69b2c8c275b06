"""Run calls that may hang, such as stat on an unreachable file server, with a timeout."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bounded"]


def bounded(what: Callable[[], Any], timeout_s: float) -> Any:  # noqa: ANN401 - returns what the call returns
    """Return the result of a call in a separate thread, which is abandoned on timeout.

    Raises:
        TimeoutError: the call took too long.
        OSError: raised by the call.
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
