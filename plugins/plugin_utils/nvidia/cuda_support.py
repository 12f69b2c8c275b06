"""Drivers and GPU generations that each CUDA toolkit release supports.

Sources:

- CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding Driver Versions": the driver shipped with each release.
- The same, "Minimum Required Driver Version for CUDA Minor Version Compatibility": with that driver, all releases of a
  major version work, except for features that require a newer driver (11.x: 450.80.02, 12.x: 525.60.13, 13.x:
  580.65.06).
- The same, "Deprecated Architectures": 13.0 dropped Maxwell, Pascal and Volta; 12.0 dropped Kepler.
- Release notes of the first release that supports a generation: 10.0 for Turing, 11.0 for Ampere, 11.8 for Hopper and
  Ada, 12.8 for Blackwell, 12.9 for Blackwell Ultra.
"""

from __future__ import annotations

import re

# Driver shipped with the first package of each release, on Linux.
_OWN_DRIVER = {
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}
_LEAST_DRIVER = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}
# Map a GPU generation to the first release that supports it, and to the last one if support was dropped.
_FIRST_RELEASE = {
    "turing": "10.0",
    "ampere": "11.0",
    "ada": "11.8",
    "hopper": "11.8",
    "grace_hopper": "11.8",
    "blackwell": "12.8",
    "blackwell_ultra": "12.9",
}
_LAST_RELEASE = {"maxwell": "12.9", "pascal": "12.9", "volta": "12.9"}
_VERSION = re.compile(r"(\d+\.\d+)(\.\d+)?")


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparison: '12.8.1-1' gives (12, 8, 1, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def release_of(version: str) -> str:
    """Return the major and minor version of a toolkit: '12.8.1' gives '12.8'.

    Raises:
        ValueError: if it is not a valid version.
    """
    match = _VERSION.fullmatch(version)
    if not match:
        message = f"{version!r} is not a valid CUDA version such as 12.8 or 12.8.1"
        raise ValueError(message)
    return match.group(1)


def least_driver(release: str, *, minor_compatibility: bool) -> str:
    """Return the oldest driver for a release, or '' if it is unknown.

    With `minor_compatibility`, the minimum of the major version applies, else the driver shipped with the release.
    """
    if minor_compatibility:
        return _LEAST_DRIVER.get(release.partition(".")[0], "")
    return _OWN_DRIVER.get(release, "")


def driver_fits(driver: str, least: str) -> bool:
    """Return whether a driver (a version or a branch) is at least `least`.

    A branch counts as its newest version: 525 includes 525.60.13.
    """
    known, wanted = version_key(driver), version_key(least)
    return known[:1] >= wanted[:1] if len(known) == 1 else known >= wanted


def generation_fits(generation: str | None, release: str) -> str:
    """Return why a release does not support a GPU generation, or '' if it does."""
    first, last = _FIRST_RELEASE.get(generation or ""), _LAST_RELEASE.get(generation or "")
    if first and version_key(release) < version_key(first):
        return f"does not support {generation}; the first version that does is {first}"
    if last and version_key(release) > version_key(last):
        return f"no longer supports {generation}; the last version that does is {last}"
    return ""
