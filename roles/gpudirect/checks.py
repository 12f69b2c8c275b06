"""Checks the options of the role gpudirect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def check(options: Mapping[str, Any], _: Mapping[str, Any]) -> list[Problem]:
    """Return the archives without a valid checksum."""
    return [
        make_problem(
            [],
            f"gpudirect_gdrcopy_archives[{entry.get('url')}]",
            "sha256 is not a SHA-256",
            "write its 64 hexadecimal digits",
        )
        for entry in options["gdrcopy_archives"]
        if not _SHA256.fullmatch(str(entry.get("sha256")))
    ]
