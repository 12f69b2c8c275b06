"""Slurm releases: supported upgrade steps, and installed and offered versions.

Source: SchedMD's Upgrade Guide (doc/html/upgrades.shtml, "Release Cycle" and "Compatibility Window"): a major release
every nine months until 24.05, then every six months; upgrades are supported from the previous two releases and,
since 24.11, from the previous three.
"""

from __future__ import annotations

import re

__all__ = ["parse_candidates", "path_to", "release", "release_text", "window", "window_problem"]

Release = tuple[int, int]

_RELEASE = re.compile(r"(\d+)\.(\d+)")
# Releases before the regular schedule of one each May and November, which starts with 24.05.
_FORMER: tuple[Release, ...] = (
    *((17, 2), (17, 11), (18, 8), (19, 5), (20, 2), (20, 11)),
    *((21, 8), (22, 5), (23, 2), (23, 11)),
)
_REGULAR_SINCE = (24, 5)
_WIDER_SINCE = (24, 11)
_MAY, _NOVEMBER = 5, 11
_NARROW, _WIDE = 2, 3


def release(text: str) -> Release:
    """Return year and month of a Slurm version such as 'slurm-wlm 24.11.5'.

    Raises:
        ValueError: the text contains no version.
    """
    found = _RELEASE.search(text)
    if found is None:
        message = f"no Slurm version in {text!r}"
        raise ValueError(message)
    return int(found[1]), int(found[2])


def release_text(version: str) -> str:
    """Return the major release of a version as Slurm writes it: '26.05' for '26.05.5-1'."""
    year, month = release(version)
    return f"{year}.{month:02d}"


def _number(one: Release) -> int:
    """Return the index of a release in the sequence of all releases.

    Raises:
        ValueError: the Slurm release is unknown.
    """
    if one in _FORMER:
        return _FORMER.index(one)
    if one < _REGULAR_SINCE or one[1] not in {_MAY, _NOVEMBER}:
        message = f"{one[0]}.{one[1]:02d} is not a major Slurm release"
        raise ValueError(message)
    return len(_FORMER) + 2 * (one[0] - _REGULAR_SINCE[0]) + (one[1] == _NOVEMBER)


def _release_at(number: int) -> Release:
    if number < len(_FORMER):
        return _FORMER[number]
    year, later = divmod(number - len(_FORMER), 2)
    return _REGULAR_SINCE[0] + year, _NOVEMBER if later else _MAY


def window(target: str) -> list[str]:
    """Return the major releases that can be upgraded to a version in one step, newest first.

    Raises:
        ValueError: the Slurm release is unknown.
    """
    number = _number(release(target))
    width = _WIDE if release(target) >= _WIDER_SINCE else _NARROW
    return ["{}.{:02d}".format(*_release_at(each)) for each in range(number - 1, max(number - 1 - width, -1), -1)]


def path_to(installed: str, target: str) -> list[str]:
    """Return the shortest sequence of major releases to upgrade through, ending with the target.

    Raises:
        ValueError: a version is not a Slurm release, or the target is not newer.
    """
    begin, end = _number(release(installed)), _number(release(target))
    if end <= begin:
        message = f"{target} is not newer than {installed}"
        raise ValueError(message)
    steps = []
    while begin < end:
        reached = (number for number in range(end, begin, -1) if _reaches(begin, number))
        begin = next(reached)
        steps.append("{}.{:02d}".format(*_release_at(begin)))
    return steps


def _reaches(begin: int, number: int) -> bool:
    width = _WIDE if _release_at(number) >= _WIDER_SINCE else _NARROW
    return number - begin <= width


def window_problem(installed: str, target: str) -> tuple[str, str]:
    """Return why an upgrade in one step is not supported, and the remedy; two empty strings if it is supported.

    Args:
        installed: installed version of a daemon, such as ``24.11.5-4``.
        target: version to install.
    """
    try:
        before, after = _number(release(installed)), _number(release(target))
    except ValueError as error:
        return str(error), "provide packages of a Slurm release"
    if after < before:
        return (
            f"{installed} is installed, and {target} is offered: Slurm cannot be downgraded",
            "set slurm_repository to a source of this release or a newer one",
        )
    if after == before or release_text(installed) in window(target):
        return "", ""
    steps = path_to(installed, target)
    return (
        f"{installed} is installed, and {target} only accepts state and jobs of {', '.join(window(target))}",
        f"upgrade in steps: {', then '.join(steps)}; slurm_repository.release and .suite (or .url) set the source",
    )


def parse_candidates(output: str) -> dict[str, tuple[str, str]]:
    """Return each package's installed and candidate version from `apt-cache policy`, '' for a missing version."""
    found: dict[str, tuple[str, str]] = {}
    name = installed = ""
    for line in output.splitlines():
        if not line.startswith(" "):
            name = line.rstrip(":")
        key, _, value = line.strip().partition(": ")
        value = "" if value == "(none)" else value
        if key == "Installed":
            installed = value
        elif key == "Candidate":
            found[name] = (installed, value)
    return found
