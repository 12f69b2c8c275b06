"""Checks the options of the miniforge role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the invalid checksums."""
    return [
        make_problem(
            [], f"miniforge_checksums.{machine}", "is not a SHA-256", "copy it from the release page of the installer"
        )
        for machine, checksum in options["checksums"].items()
        if not _SHA256.fullmatch(str(checksum))
    ]
