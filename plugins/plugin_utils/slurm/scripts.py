"""Scripts that Slurm calls for each job, where several parts of a cluster want one of their own.

slurm.conf of Slurm 22.05 takes one Prolog, one Epilog and one TaskProlog (a file name pattern at most, slurm.conf(5));
a second line of the key takes the place of the first. Several are therefore called by one small script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["script_keys", "script_problems"]

# By key of slurm.conf, the script that calls several, a template of the role.
CALLERS = {"Prolog": "job_prolog", "Epilog": "job_epilog", "TaskProlog": "job_task_prolog"}


def _paths(value: object) -> list[str]:
    """Return the paths of one key, given as one or as a list."""
    return [str(path) for path in value] if isinstance(value, (list, tuple)) else [str(value)]


def script_problems(scripts: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with `slurm_job_scripts`."""
    problems: list[Problem] = []
    for key, value in scripts.items():
        place = f"slurm_job_scripts.{key}"
        if key not in CALLERS:
            remedy = f"use {', '.join(CALLERS)}; other keys of slurm.conf belong into slurm_config"
            problems.append(make_problem([], place, "is no key for scripts of jobs", remedy))
            continue
        for path in _paths(value):
            if not path.startswith("/") or "\n" in path:
                remedy = "give the absolute path of a script that is on every compute node"
                problems.append(make_problem([], place, f"{path!r} is no absolute path", remedy))
    return problems


def script_keys(scripts: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Return keys and values for slurm.conf: the one script of a key, or the caller of several.

    Args:
        scripts: `slurm_job_scripts`.
        folder: where the callers lie, on every compute node, whether slurm.conf names them or not.
    """
    given = {key: _paths(value) for key, value in scripts.items() if value}
    return {key: paths[0] if len(paths) == 1 else f"{folder}/{CALLERS[key]}" for key, paths in given.items()}
