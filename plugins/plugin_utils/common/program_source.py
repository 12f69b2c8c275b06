"""Check the options for the download source and the additional arguments of a daemon."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...module_utils.common.problems import Problem

_SHA256 = re.compile(r"[0-9a-f]{64}")


def source_problems(role: str, settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems with `source` and `archives`; settings also contains `architecture` and `packaged`."""
    if settings["source"] == "distribution" and not settings["packaged"]:
        remedy = f"set {role}_source: url and {role}_archives to the upstream release"
        return [make_problem([host], f"{role}_source", "this distribution does not package it", remedy)]
    if settings["source"] != "url":
        return []
    entry = (settings["archives"] or {}).get(settings["architecture"]) or {}
    if not str(entry.get("url") or "").startswith(("http://", "https://")):
        remedy = "add url and sha256 of the release for this architecture"
        return [make_problem([host], f"{role}_archives", f"has no url for {settings['architecture']}", remedy)]
    if not _SHA256.fullmatch(str(entry.get("sha256") or "")):
        remedy = "verify the archive, then set sha256 to the output of `sha256sum`"
        return [make_problem([host], f"{role}_archives", f"sha256 of {entry['url']} is missing", remedy)]
    return []


def argument_problems(role: str, arguments: Iterable[object], host: str) -> list[Problem]:
    """Return a problem for each argument that contains a line break; ExecStart= does not allow them."""
    return [
        make_problem([host], f"{role}_arguments", f"{word!r} contains a line break", "write each argument on one line")
        for word in map(str, arguments)
        if "\n" in word
    ]
