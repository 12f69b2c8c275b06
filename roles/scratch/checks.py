"""Checks the options of the scratch role."""

from __future__ import annotations

from ...plugins.module_utils.storage.scratch_plan import path_problems
from ...plugins.plugin_utils.role_checks import Known, Problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return a problem if the scratch directory is part of the system, also without disks of its own.

    Args:
        options: `path`.
        cluster: the `host`; empty in the preflight.
    """
    return path_problems([*cluster.values()], str(options["path"]))
