"""Checks the options of the role miniforge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def check(options: Mapping[str, Any], _: Mapping[str, Any]) -> list[Problem]:
    """Return the checksums that are none."""
    return [
        make_problem(
            [], f"miniforge_checksums.{machine}", "is not a SHA-256", "the release names it beside the installer"
        )
        for machine, checksum in options["checksums"].items()
        if not _SHA256.fullmatch(str(checksum))
    ]
