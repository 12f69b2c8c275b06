"""Checks the options of the scratch role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem
from ...plugins.plugin_utils.storage.problems import NOT_FOR_MOUNTING, path_fault

# All users write there, so that they could replace the directory by a link, and mode 0711 would lock them out.
_WRITABLE = ("/tmp", "/var/tmp")  # noqa: S108 - refused


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return a problem if the scratch directory is part of the system.

    Args:
        options: `path`.
        cluster: the `host`; empty in the preflight.
    """
    fault = path_fault(str(options["path"]), (*NOT_FOR_MOUNTING, *_WRITABLE), "used for scratch")
    if not fault:
        return []
    problem, remedy = fault
    return [make_problem([*cluster.values()], "scratch_path", problem, remedy.replace("/shared", "/scratch"))]
