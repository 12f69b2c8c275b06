"""Check the secret files on the provisioning host."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.common.problems import Problem, make_problem
from .secret_store import SecretError, encoded_length, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["secret_problems"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secret_problems(directory: str, secrets: Mapping[str, int]) -> list[Problem]:
    """Return the problems with the secrets directory and the existing secrets.

    Args:
        directory: its path; '' skips the check.
        secrets: number of random bytes by name.
    """
    place = Path(directory)
    if not directory or not place.exists():
        return []
    if not place.is_dir():
        return [make_problem([], directory, "is not a directory (expected the secrets directory)", "move it away")]
    problems = []
    if stat.S_IMODE(place.stat().st_mode) & _OTHERS:
        problem = f"is accessible to other users (mode {stat.S_IMODE(place.stat().st_mode):04o})"
        problems.append(make_problem([], directory, problem, f"chmod 0700 {directory}"))
    for name, size in secrets.items():
        try:
            read_secret(place / name, encoded_length(size))
        except FileNotFoundError:
            continue  # generated on first use
        except SecretError as exc:
            problem, _, remedy = str(exc).removeprefix(f"secret {place / name} ").partition(": ")
            problems.append(make_problem([], str(place / name), problem, remedy))
    return problems
