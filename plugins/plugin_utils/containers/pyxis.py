"""The arguments with which Slurm loads Pyxis.

Pyxis reads them in slurmstepd and slurmd only, and one that it does not know or cannot read fails every job of the
node: Pyxis 0.24, config.c (pyxis_config_parse, parse_bool).
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["pyxis_problems"]

SWITCHES = ("execute_entrypoint", "sbatch_support", "use_enroot_load", "use_squashfuse")
PATHS = ("importer", "runtime_path")
# Those that are options of the role.
OWN = ("container_scope", "execute_entrypoint", "runtime_path", "sbatch_support")
_TRUE = ("1", "true", "yes", "y", "on")
_FALSE = ("0", "false", "no", "n", "off")
_LONGEST_PATH = 4095
_PATH = re.compile(r"/[^\s#]*")


def pyxis_problems(options: Mapping[str, Any], host: str, key: str = "pyxis_options") -> list[Problem]:
    """Return what is wrong with a site's own arguments.

    Args:
        options: arguments by name.
        host: name of the host that they are declared for.
        key: name of the variable that declares them.
    """
    problems = []
    known = sorted({*SWITCHES, *PATHS} - {*OWN})
    for name, value in options.items():
        place = f"{key}.{name}"
        if name in OWN:
            problems.append(make_problem([host], place, "is an option of the role", f"set pyxis_{name}"))
        elif name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = (f"did you mean {near[0]}? " if near else "") + f"Use one of: {', '.join(known)}"
            problems.append(
                make_problem([host], place, "is no argument of Pyxis, so that every job would fail", remedy)
            )
        elif name in SWITCHES and _switch(value) is None:
            problems.append(make_problem([host], place, f"{value!r} is neither true nor false", "set true or false"))
        elif name in PATHS and not _is_path(value):
            remedy = f"give an absolute path without blanks, of at most {_LONGEST_PATH} characters"
            problems.append(make_problem([host], place, f"{value!r} is no such path", remedy))
    return problems


def _switch(value: object) -> bool | None:
    """Return a truth value as YAML or the command line gives it; None for what is none."""
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _is_path(value: object) -> bool:
    text = str(value)
    return bool(_PATH.fullmatch(text)) and len(text) <= _LONGEST_PATH
