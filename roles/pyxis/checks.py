"""Checks the arguments that Slurm passes to Pyxis.

Only slurmstepd and slurmd parse them, and an unknown or invalid argument fails every job on the node: Pyxis 0.24,
config.c (pyxis_config_parse, parse_bool).
"""

from __future__ import annotations

import difflib
import re

from ...plugins.plugin_utils.preflight.software import is_on
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

# Versions whose checksum the role contains.
KNOWN = ("0.24.0",)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
SWITCHES = ("execute_entrypoint", "sbatch_support", "use_enroot_load", "use_squashfuse")
PATHS = ("importer", "runtime_path")
# Arguments of Pyxis that the role sets from separate options.
OWN = ("container_scope", "execute_entrypoint", "runtime_path", "sbatch_support")
_TRUE = ("1", "true", "yes", "y", "on")
_FALSE = ("0", "false", "no", "n", "off")
_LONGEST_PATH = 4095
_PATH = re.compile(r"/[^\s#]*")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid arguments of a site.

    Args:
        options: `options`, arguments by name.
        cluster: the `host`.
    """
    host, problems = cluster.get("host", ""), []
    known = sorted({*SWITCHES, *PATHS} - {*OWN})
    for name, value in options["options"].items():
        place = f"pyxis_options.{name}"
        if name in OWN:
            problems.append(make_problem([host], place, "is an option of the role", f"set pyxis_{name}"))
        elif name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = (f"did you mean {near[0]}? " if near else "") + f"use one of {', '.join(known)}"
            problems.append(make_problem([host], place, "is not an argument of Pyxis, so every job would fail", remedy))
        elif name in SWITCHES and _switch(value) is None:
            problems.append(make_problem([host], place, f"{value!r} is not a boolean", "set true or false"))
        elif name in PATHS and not _is_path(value):
            remedy = f"set an absolute path without spaces, of at most {_LONGEST_PATH} characters"
            problems.append(make_problem([host], place, f"{value!r} is not a valid path", remedy))
    return problems


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the hosts whose Pyxis archive cannot be verified."""
    hosts = {host: cluster["hostvars"][host] for host in cluster["groups"].get("all", [])}
    wrong = [host for host, each in hosts.items() if is_on(each, "pyxis") and not _verified(each)]
    remedy = "set it to the output of `sha256sum` for the archive at pyxis_source, if you trust that file"
    problem = "is not a SHA-256 checksum, so the archive cannot be verified"
    return [make_problem(wrong, "pyxis_sha256", problem, remedy)] if wrong else []


INVENTORY = {"pyxis_sha256": check_inventory}


def _verified(variables: Known) -> bool:
    """Return whether the Pyxis archive has a checksum: a declared one, or a built-in one for the version."""
    given = variables.get("pyxis_sha256")
    if given is None:
        return str(variables.get("pyxis_version", KNOWN[0])) in KNOWN
    return bool(_SHA256.fullmatch(str(given)))


def _switch(value: object) -> bool | None:
    """Return a boolean from YAML or the command line, or None if the value is not a boolean."""
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _is_path(value: object) -> bool:
    text = str(value)
    return bool(_PATH.fullmatch(text)) and len(text) <= _LONGEST_PATH
