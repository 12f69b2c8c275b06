# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Convert options to the types that a TypedDict declares; options from `-e` are strings."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from ..common.option_names_in_messages import option

if sys.version_info >= (3, 11):
    from typing import NotRequired, Required, get_type_hints, is_typeddict  # novermin
else:
    from typing_extensions import NotRequired, Required, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["NotRequired", "Span", "bytes_of", "read_options", "size_problems"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True)
class Span:
    """The minimum and the maximum of a number; None for no bound."""

    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        """Return the bounds as text for messages; empty if the number is unbounded."""
        if self.least is None:
            return "" if self.most is None else f", {self.most:g} or less"
        return f", {self.least:g} or more" if self.most is None else f", {self.least:g} to {self.most:g}"

    def holds(self, value: float) -> bool:
        """Return whether a number is within the bounds."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def read_options(
    form: Any,  # noqa: ANN401 - a TypedDict is not a type
    given: Mapping[str, object],
    named: Callable[[str], str] = option,
) -> tuple[dict[str, Any], list[str]]:
    """Return the converted options, and a message for each invalid, missing or unknown option.

    Integers, numbers and booleans may be strings; a list of strings may be one comma-separated string. A number
    annotated with a Span must lie within it. Only keys marked NotRequired may be missing.

    Args:
        form: the TypedDict. Values of type Any are not converted.
        given: the options.
        named: returns the option name of a key, for messages.
    """
    found: dict[str, Any] = {}
    problems = [f"{named(key)}: unknown option" for key in given if key not in form.__annotations__]
    for key, hint in get_type_hints(form, include_extras=True).items():
        if key not in given:
            problems += [] if get_origin(hint) is NotRequired else [f"{named(key)}: is missing"]
            continue
        try:
            found[key] = _read(hint, given[key], named(key))
        except ValueError as exc:
            problems.append(str(exc))
    return found, problems


def _read(hint: Any, value: object, name: str) -> Any:  # noqa: ANN401, PLR0911 - one branch for each type
    """Return a value converted to a type.

    Raises:
        ValueError: the value is invalid; the message begins with the option's name.
    """
    origin, span = get_origin(hint), Span()
    if origin in {NotRequired, Required}:
        return _read(get_args(hint)[0], value, name)
    if origin is Annotated:
        hint, span = get_args(hint)[:2]
        origin = get_origin(hint)
    if hint is bool:
        return _truth(value, name)
    if hint in {int, float}:
        return _number(hint, value, name, span)
    if hint is str:
        return _text(value, name)
    if origin is list:
        return _list(get_args(hint)[0], value, name)
    if origin is dict or is_typeddict(hint):
        return _table(hint, value, name)
    return value


def _table(hint: Any, value: object, name: str) -> dict[str, Any]:  # noqa: ANN401 - a type annotation
    if not isinstance(value, dict):
        message = f"{name}: {value!r} is not a dictionary"
        raise ValueError(message)  # noqa: TRY004 - invalid input, not a program error
    if is_typeddict(hint):
        found, problems = read_options(hint, value, lambda key: f"{name}.{key}")
        if problems:
            raise ValueError("; ".join(problems))
        return found
    inner = get_args(hint)[1]
    return {str(key): _read(inner, item, f"{name}: {key}") for key, item in value.items()}


def _list(inner: Any, value: object, name: str) -> list[Any]:  # noqa: ANN401 - a type annotation
    items = [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        message = f"{name}: {value!r} is not a list"
        raise ValueError(message)  # noqa: TRY004 - invalid input, not a program error
    return [_read(inner, item, name) for item in items]


def _truth(value: object, name: str) -> bool:
    found = value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
    if found is None:
        message = f"{name}: {value!r} is not true or false"
        raise ValueError(message)
    return found


def _number(hint: type[int | float], value: object, name: str, span: Span) -> float:
    found: float | None = None
    text = str(value).strip()
    if hint is int and not isinstance(value, bool):
        found = int(text) if text.removeprefix("-").isdecimal() else None
    elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            found = float(text)
        except ValueError:
            found = None
    if found is None or not math.isfinite(found) or not span.holds(found):
        message = f"{name}: {value!r} is not a {'whole ' if hint is int else ''}number{span}"
        raise ValueError(message)
    return found


def _text(value: object, name: str) -> str:
    if isinstance(value, (dict, list, tuple)):
        message = f"{name}: {value!r} is not a string"
        raise ValueError(message)  # noqa: TRY004 - invalid input, not a program error
    return "" if value is None else str(value)


def bytes_of(text: str | int) -> int:
    """Return the number of bytes of a size such as 8, 64K, 16M or 1G.

    Raises:
        ValueError: the text is not a size.
    """
    text = str(text).strip()
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in _UNITS or not number.isdigit() or int(number) == 0:
        message = f"{text!r} is not a valid size: use a number such as 8, 64K, 16M or 1G"
        raise ValueError(message)
    return int(number) * _UNITS[unit]


def size_problems(options: Mapping[str, Any]) -> list[str]:
    """Return the problems with the message sizes min_bytes and max_bytes."""
    problems = []
    sizes = {}
    for name in ("min_bytes", "max_bytes"):
        try:
            sizes[name] = bytes_of(options[name])
        except ValueError as exc:
            problems.append(f"{option(name)}: {exc}")
    if len(sizes) == len(("min", "max")) and sizes["min_bytes"] > sizes["max_bytes"]:
        problems.append(f"{option('min_bytes')} is above {option('max_bytes')}")
    return problems
