"""Configure several job scripts for one key of slurm.conf.

In Slurm 22.05, slurm.conf accepts only one path or file name pattern for Prolog, Epilog and TaskProlog (slurm.conf(5)).
For several scripts, a wrapper script is configured that calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

# Maps a slurm.conf key to its wrapper script, a template in the role.
CALLERS = {"Prolog": "job_prolog", "Epilog": "job_epilog", "TaskProlog": "job_task_prolog"}


def _paths(value: object) -> list[str]:
    """Return the paths of one key as a list."""
    return [str(path) for path in value] if isinstance(value, (list, tuple)) else [str(value)]


def script_problems(scripts: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with `slurm_job_scripts`."""
    problems: list[Problem] = []
    for key, value in scripts.items():
        place = f"slurm_job_scripts.{key}"
        if key not in CALLERS:
            remedy = f"use {', '.join(CALLERS)}; put other keys of slurm.conf into slurm_config"
            problems.append(make_problem([], place, "is not a key for job scripts", remedy))
            continue
        for path in _paths(value):
            if not path.startswith("/") or "\n" in path:
                remedy = "set the absolute path of a script that exists on every compute node"
                problems.append(make_problem([], place, f"{path!r} is not an absolute path", remedy))
    return problems


def script_keys(scripts: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Return keys and values for slurm.conf: a single script, or the wrapper for several.

    Args:
        scripts: `slurm_job_scripts`.
        folder: directory of the wrappers on every compute node.
    """
    given = {key: _paths(value) for key, value in scripts.items() if value}
    return {key: paths[0] if len(paths) == 1 else f"{folder}/{CALLERS[key]}" for key, paths in given.items()}
