# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the hardware profiles of the collection, one file per profile."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

LIKE = "like"
_CLOSE = 0.6
PROFILES = Path(__file__).resolve().parent / "hardware"


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the collection's profiles."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yml")))


@cache
def shipped_profile(name: str) -> dict[str, Any]:
    """Return a profile of the collection, with the keys that it inherits by `like`. Callers must not modify it.

    Raises:
        ValueError: its file is not valid YAML.
    """
    path = PROFILES / f"{name}.yml"
    # Use libyaml, which is seven times as fast: every task on every host reads a profile.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found: dict[str, Any] = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as exc:
        message = f"{path} is not valid YAML: {' '.join(str(exc).split())}"
        raise ValueError(message) from exc
    like = found.pop(LIKE, None)
    return merged(shipped_profile(like), found) if like else found


def merged(below: Any, above: Any) -> Any:  # noqa: ANN401 - any YAML value
    """Return `above` merged over `below`: dictionaries recursively; an empty dictionary replaces the one in `below`."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: merged(below.get(key), value) if value != {} else {} for key, value in above.items()}}


def unknown_hardware(name: object, known: Iterable[str]) -> tuple[str, str]:
    """Return the problem with an unknown hardware name, with similar known names, and the remedy.

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
