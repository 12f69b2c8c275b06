"""Normalize names and values of the limits in Slurm's accounting."""

from __future__ import annotations

import re

from .slurm_conf import read_minutes

__all__ = ["ASSOCIATION_LIMITS", "QOS_LIMITS", "canonical_limits", "normal_value"]

_COMMON = {
    "GrpJobs": "count",
    "GrpJobsAccrue": "count",
    "GrpSubmitJobs": "count",
    "GrpTRES": "tres",
    "GrpTRESMins": "tres",
    "GrpTRESRunMins": "tres",
    "GrpWall": "minutes",
    "MaxTRESPerJob": "tres",
    "MaxTRESPerNode": "tres",
    "MaxTRESMinsPerJob": "tres",
    "MaxWallDurationPerJob": "minutes",
}
# Kind of value of each limit; `sacctmgr` accepts these names in `show … format=` and in `set`.
ASSOCIATION_LIMITS = {**_COMMON, "MaxJobs": "count", "MaxJobsAccrue": "count", "MaxSubmitJobs": "count"}
QOS_LIMITS = {
    **_COMMON,
    "MaxJobsPerUser": "count",
    "MaxJobsPerAccount": "count",
    "MaxSubmitJobsPerUser": "count",
    "MaxSubmitJobsPerAccount": "count",
    "MaxTRESPerUser": "tres",
    "MaxTRESPerAccount": "tres",
    "MinTRESPerJob": "tres",
}
_ALIASES = {
    "grpsubmit": "GrpSubmitJobs",
    "maxtres": "MaxTRESPerJob",
    "maxtresmins": "MaxTRESMinsPerJob",
    "maxwall": "MaxWallDurationPerJob",
    "maxsubmit": "MaxSubmitJobs",
    "mintres": "MinTRESPerJob",
    "maxjobspu": "MaxJobsPerUser",
    "maxjobspa": "MaxJobsPerAccount",
    "maxsubmitpu": "MaxSubmitJobsPerUser",
    "maxsubmitjobspu": "MaxSubmitJobsPerUser",
    "maxsubmitpa": "MaxSubmitJobsPerAccount",
    "maxsubmitjobspa": "MaxSubmitJobsPerAccount",
    "maxtrespn": "MaxTRESPerNode",
    "maxtrespu": "MaxTRESPerUser",
    "maxtrespa": "MaxTRESPerAccount",
}
_SCALE = {"": 1, "m": 1, "k": 1 / 1024, "g": 1024, "t": 1024**2, "p": 1024**3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgtp]?)b?", re.IGNORECASE)


def canonical_limits(limits: dict[str, object], known: dict[str, str]) -> dict[str, str]:
    """Return limits by full name with normalized values; limits without a value ('', -1, None) are omitted.

    Args:
        limits: declared limits; names in any case, or sacctmgr's short names.
        known: ASSOCIATION_LIMITS or QOS_LIMITS.

    Raises:
        ValueError: a name is unknown, or a value is malformed.
    """
    full = {name.lower(): name for name in known}
    result = {}
    for given, value in limits.items():
        lower = given.lower()
        name = full.get(lower) or _ALIASES.get(lower, "")
        if name not in known:
            message = f"unknown limit {given!r}; known: {', '.join(sorted(known))}"
            raise ValueError(message)
        try:
            text = normal_value(value, known[name])
        except ValueError as exc:
            message = f"limit {given}: {exc}"
            raise ValueError(message) from exc
        if text:
            result[name] = text
    return result


def normal_value(value: object, kind: str) -> str:
    """Return the normalized form of a value, so that equal limits compare equal; '' means no limit.

    Args:
        value: declared text or number, or output of sacctmgr.
        kind: 'count', 'tres' or 'minutes'.

    Raises:
        ValueError: the value is malformed.
    """
    if isinstance(value, dict):
        value = ",".join(f"{name}={amount}" for name, amount in value.items())
    text = "" if value is None else str(value).strip()
    if text in {"", "-1", "UNLIMITED", "INFINITE"}:
        return ""
    if kind == "tres":
        return _tres(text)
    if kind == "minutes":
        return _minutes(text)
    if not text.isdigit():
        message = f"{text!r} is not a count"
        raise ValueError(message)
    return str(int(text))


def _tres(text: str) -> str:
    """Return trackable resources sorted by name, memory in MiB: 'mem=10G,cpu=4' gives 'cpu=4,mem=10240'."""
    found = {}
    for part in text.split(","):
        name, separator, amount = part.strip().partition("=")
        size = _SIZE.fullmatch(amount.strip())
        if not separator or not name or (size is None and amount.strip() != "-1"):
            message = f"{text!r} is not a list of resources such as cpu=4,mem=10G,gres/gpu=2"
            raise ValueError(message)
        if size is not None:
            scaled = float(size[1]) * (_SCALE[size[2].lower()] if size[2] else 1)
            found[name.strip().lower()] = str(int(scaled)) if scaled == int(scaled) else str(scaled)
    return ",".join(f"{name}={found[name]}" for name in sorted(found))


def _minutes(text: str) -> str:
    """Return a time in minutes: '90', '1:30:00', '90:00' and '0-01:30' all give '90'."""
    minutes = read_minutes(text)
    if minutes is None:
        message = f"{text!r} is not a time such as 90, 1:30:00 or 2-00:00:00"
        raise ValueError(message)
    return str(minutes)
