"""Checks the options of the role slurm_spank."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem
from ...plugins.plugin_utils.slurm.spank_plan import declaration_problems


def check(options: Known, _: Known) -> list[Problem]:
    """Return the invalid entries of `slurm_spank_plugins`."""
    return declaration_problems(options["plugins"])
