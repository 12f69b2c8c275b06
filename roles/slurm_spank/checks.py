"""Checks the options of the role slurm_spank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.slurm.spank_plan import declaration_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem


def check(options: Mapping[str, Any], _: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid entries of `slurm_spank_plugins`."""
    return declaration_problems(options["plugins"])
