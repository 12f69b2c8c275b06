# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The hardware profiles of the collection, one file each."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LIKE", "PROFILES", "merged", "profile_names", "shipped_profile", "unknown_hardware"]

LIKE = "like"
_CLOSE = 0.6
PROFILES = Path(__file__).resolve().parent / "hardware"


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the collection's profiles."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yml")))


@cache
def shipped_profile(name: str) -> dict[str, Any]:
    """Return one of profile_names(), merged over the profile in its `like`. Callers must not modify the result.

    Raises:
        ValueError: its file is not valid YAML.
    """
    path = PROFILES / f"{name}.yml"
    # Prefer libyaml: it reads a file in a seventh of the time, and every task on every host reads one.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found: dict[str, Any] = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as exc:
        message = f"{path} is not valid YAML: {' '.join(str(exc).split())}"
        raise ValueError(message) from exc
    like = found.pop(LIKE, None)
    return merged(shipped_profile(like), found) if like else found


def merged(below: Any, above: Any) -> Any:  # noqa: ANN401 - any YAML value
    """Return two dictionaries merged recursively; other values, and empty nested dictionaries, come from `above`."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: merged(below.get(key), value) if value != {} else {} for key, value in above.items()}}


def unknown_hardware(name: object, known: Iterable[str]) -> tuple[str, str]:
    """Return the problem with an unknown hardware name, including similar known names, and the remedy.

    Args:
        name: the name, as the site wrote it.
        known: names of all profiles.
    """
    names = sorted(map(str, known))
    plain = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(plain, names, n=3, cutoff=_CLOSE)
    problem = f"unknown hardware {name!r}" + (f" (did you mean {' or '.join(near)}?)" if near else "")
    remedy = f"set hardware to one of: {', '.join(names) or 'none is known'}; or describe it in hardware_profiles_extra"
    return problem, remedy
