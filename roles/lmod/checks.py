"""Checks the options of the lmod role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid entries of `lmod_modules`."""
    host, problems = cluster.get("host", ""), []
    for index, module in enumerate(options["modules"]):
        name, version = str(module.get("name", "")), str(module.get("version", ""))
        place = f"lmod_modules[{index}]"
        if not _NAME.fullmatch(name):
            remedy = "use a name such as cuda or mpi/openmpi"
            problems.append(make_problem([host], place, f"{name!r} is not a valid module name", remedy))
        if not _VERSION.fullmatch(version):
            remedy = "use a quoted version such as '12.4'"
            problems.append(make_problem([host], place, f"version {version!r} is not a valid version", remedy))
        for option in ("prepend_path", "append_path", "setenv"):
            problems += [
                make_problem(
                    [host],
                    f"{place}.{option}",
                    f"{variable!r} is not a valid variable name",
                    "use letters, digits and _",
                )
                for variable in module.get(option) or {}
                if not _VARIABLE.fullmatch(str(variable))
            ]
    return problems + _repeated(options["modules"], host)


def _repeated(modules: Sequence[Known], host: str) -> list[Problem]:
    """Return modules that are declared twice, and names with two default versions."""
    named = [f"{module.get('name')}/{module.get('version')}" for module in modules]
    defaults = [str(module.get("name")) for module in modules if module.get("default")]
    return [
        make_problem([host], "lmod_modules", f"{each} is declared {named.count(each)} times", "declare it once")
        for each in dict.fromkeys(named)
        if named.count(each) > 1
    ] + [
        make_problem(
            [host],
            "lmod_modules",
            f"{each} has {defaults.count(each)} default versions",
            "set default: true for only one of them",
        )
        for each in dict.fromkeys(defaults)
        if defaults.count(each) > 1
    ]
