"""Checks the options of the gpudirect role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the archives without a valid checksum."""
    return [
        make_problem(
            [],
            f"gpudirect_gdrcopy_archives[{entry.get('url')}]",
            "sha256 is not a SHA-256 checksum",
            "set its 64 hexadecimal digits",
        )
        for entry in options["gdrcopy_archives"]
        if not _SHA256.fullmatch(str(entry.get("sha256")))
    ]
