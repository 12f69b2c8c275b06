"""Scripts that Slurm calls for each job, where several parts of a cluster want one of their own.

slurm.conf of Slurm 22.05 takes one Prolog, one Epilog and one TaskProlog (a file name pattern at most, slurm.conf(5));
a second line of the key takes the place of the first. Several are therefore called by one small script.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..common.problems import Problem

__all__ = ["job_scripts", "script_problems"]

# By key of slurm.conf, the script that calls several. TaskProlog's output goes into the task's environment.
CALLERS = {"Prolog": "job_prolog", "Epilog": "job_epilog", "TaskProlog": "job_task_prolog"}
# An epilog cleans up: what follows the one that failed has its own to do.
GO_ON = ("Epilog",)


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


def job_scripts(scripts: Mapping[str, Any], folder: str, header: str) -> dict[str, Any]:
    """Return `config`, keys and values for slurm.conf, and `files`, the callers as the module C(files) takes them.

    Args:
        scripts: `slurm_job_scripts`.
        folder: where the callers lie.
        header: first lines of each, comments.

    There is a file for each key, whether slurm.conf names it or not: on a node that already has it no job fails when
    slurm.conf begins to.
    """
    given = {key: _paths(value) for key, value in scripts.items() if value}
    config = {key: paths[0] if len(paths) == 1 else f"{folder}/{CALLERS[key]}" for key, paths in given.items()}
    files = [
        {"path": f"{folder}/{name}", "content": _caller(key, given.get(key, []), header), "mode": "0755"}
        for key, name in CALLERS.items()
    ]
    return {"config": config, "files": files}


def _caller(key: str, paths: list[str], header: str) -> str:
    """Return a script that calls others in their order, with the first exit status that is not 0."""
    # With Pyxis, TaskProlog runs in the task's container, which may have no other shell.
    lines = ["#!/bin/sh" if key == "TaskProlog" else "#!/bin/bash", *header.splitlines()]
    lines.append(f"# Called by slurmd as {key} when slurm_job_scripts has several.")
    if key in GO_ON:
        lines += ["failed=0", *(f"{shlex.quote(path)} || failed=$?" for path in paths), 'exit "$failed"']
    else:
        lines += [*(f"{shlex.quote(path)} || exit" for path in paths), "exit 0"]
    return "\n".join(lines) + "\n"
