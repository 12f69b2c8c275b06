"""Convert exceptions that invalid input causes into Ansible errors, for filters and lookups."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ansible.errors import AnsibleError, AnsibleFilterError, AnsibleLookupError

if TYPE_CHECKING:
    from collections.abc import Callable

BAD_INPUT = (AnsibleError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""Exceptions that invalid input causes: failed templates, values of the wrong type, unreadable files."""

P = ParamSpec("P")
T = TypeVar("T")


def border(
    function: Callable[P, T],
    *,
    hint: str = "",
    secret: bool = False,
    error: type[AnsibleError] = AnsibleFilterError,
) -> Callable[P, T]:
    """Wrap a function so that invalid input raises `error`: 'gpu1: nvidia_driver_branch is missing'.

    Args:
        function: the function to wrap; the error names its arguments `host` and `key`, if it has them.
        hint: the expected values, if the function's errors do not describe them.
        secret: whether values may be secrets; the error then contains only the class of the exception.
        error: class of the Ansible error.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BAD_INPUT as exc:
            cause = type(exc).__name__ if secret else reason(exc)
            message = ": ".join(filter(None, (*_place(function, args, kwargs), hint, cause)))
            # Ansible appends the message of the cause, which the new message may already contain or must not contain.
            hide_cause = secret or isinstance(exc, AnsibleError)
            raise error(message).with_traceback(exc.__traceback__) from (None if hide_cause else exc.__cause__)

    return guarded


def reason(exc: BaseException) -> str:
    """Return the text of an exception for users, with its class if neither busbar nor Ansible raised it."""
    if isinstance(exc, KeyError):
        return f"{exc} is missing"
    if isinstance(exc, (AnsibleError, OSError, ValueError)):
        return str(exc)
    return f"{type(exc).__name__}: {exc}"


def filter_module(name: str, function: Callable[..., object], *, hint: str = "", secret: bool = False) -> type:
    """Return the class `FilterModule` of a plugin file with one filter, wrapped in `border`."""
    filters = {name: border(function, hint=hint, secret=secret)}
    return type("FilterModule", (), {"filters": lambda _self: filters})


def lookup_border(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a lookup's `run` method so that invalid input raises AnsibleLookupError."""
    return border(function, error=AnsibleLookupError)


def _place(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> list[str]:
    """Return the values of a call's arguments `host` and `key`, if it has them."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # missing arguments, which the call itself reports
        return []
    bound.apply_defaults()
    given = (bound.arguments.get(name) for name in ("host", "key"))
    return [each for each in given if isinstance(each, str)]
