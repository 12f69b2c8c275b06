"""The border between pure functions and Ansible: what they raise on bad input becomes the error Ansible expects."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from ansible.errors import AnsibleError, AnsibleFilterError, AnsibleLookupError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BAD_INPUT", "Filters", "border", "lookup_border", "reason"]

BAD_INPUT = (AnsibleError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""What bad input raises in our functions: variables that cannot be worked out, values of the wrong kind, files."""

Filters: TypeAlias = "dict[str, Callable[..., Any]]"
P = ParamSpec("P")
T = TypeVar("T")


def border(
    function: Callable[P, T],
    *,
    hint: str = "",
    secret: bool = False,
    error: type[AnsibleError] = AnsibleFilterError,
) -> Callable[P, T]:
    """Return the function with `error` raised for bad input: 'gpu1: nvidia_driver_branch is missing'.

    Args:
        function: what works out a value; its arguments `host` and `key`, where it has them, are named in the error.
        hint: what the values have to be, for functions whose own errors do not say it.
        secret: whether the values may be secrets, so that of the exception only its kind is told.
        error: the class of Ansible's error: that of lookups for a lookup.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BAD_INPUT as exc:
            said = type(exc).__name__ if secret else reason(exc)
            message = ": ".join(filter(None, (*_place(function, args, kwargs), hint, said)))
            # Ansible adds the messages of causes; that of `exc` is told already, so only its traceback goes along.
            told = secret or isinstance(exc, AnsibleError)
            raise error(message).with_traceback(exc.__traceback__) from (None if told else exc.__cause__)

    return guarded


def reason(exc: BaseException) -> str:
    """Return what an exception says to the user: its text where we or Ansible wrote it, else with its kind."""
    if isinstance(exc, KeyError):
        return f"{exc} is missing"
    if isinstance(exc, (AnsibleError, OSError, ValueError)):
        return str(exc)
    return f"{type(exc).__name__}: {exc}"


def lookup_border(function: Callable[P, T]) -> Callable[P, T]:
    """Return the method `run` of a lookup with Ansible's error for bad input."""
    return border(function, error=AnsibleLookupError)


def _place(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> list[str]:
    """Return the host and the variable that a call was about, as far as it was about one."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # too few arguments: the error tells that
        return []
    bound.apply_defaults()
    given = (bound.arguments.get(name) for name in ("host", "key"))
    return [each for each in given if isinstance(each, str)]
