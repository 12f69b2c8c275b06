"""Checks the options of the journal_remote role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

# Sizes in systemd's configuration files, systemd.syntax(7): base 1024. Fractions are not accepted here.
_SIZE = re.compile(r"([1-9][0-9]*)([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_HIGHEST_PORT = 65535


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: `receiver`, `address`, `port`, `max_use`, `keep_free`, `max_file_size`, `max_age_days`, `rotate_days`.
                The preflight does not know the folder of the journals.
        cluster: the `host`.
    """
    host = cluster.get("host", "")

    def problem(name: str, what: str, remedy: str) -> Problem:
        return make_problem([host], f"journal_remote_{name}", what, remedy)

    problems = []
    if "address" in options and not options["receiver"]:
        remedy = (
            "add a host to the group monitoring, name a host of the inventory, or set journal_remote_enabled to false"
        )
        problems.append(problem("receiver", "no host receives the journals", remedy))
    elif not options.get("address", "unknown"):
        problems.append(problem("receiver_address", "is empty", f"set the address of {options['receiver']}"))
    for name, highest in (("port", _HIGHEST_PORT), ("max_age_days", None), ("rotate_days", None)):
        number = _number(options[name])
        if not number or (highest and number > highest):
            span = f"from 1 to {highest}" if highest else "of 1 or more"
            problems.append(problem(name, f"{options[name]!r} is not a number", f"set an integer {span}"))
    sizes = {name: _size(options[name]) for name in ("max_use", "keep_free", "max_file_size")}
    for name, size in sizes.items():
        if not size:
            problems.append(
                problem(name, f"{options[name]!r} is not a valid size", "set bytes, or a size such as 64M, 20G or 1T")
            )
    if all(sizes.values()) and sizes["max_file_size"] > sizes["max_use"]:
        remedy = "lower it, or raise journal_remote_max_use"
        problems.append(
            problem("max_file_size", "is larger than journal_remote_max_use, the limit of all journals", remedy)
        )
    age, rotation = _number(options["max_age_days"]), _number(options["rotate_days"])
    if age and rotation > age:
        remedy = "lower it, because only rotated journals are removed by age"
        problems.append(problem("rotate_days", "is longer than journal_remote_max_age_days", remedy))
    return problems


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _size(value: object) -> int:
    found = _SIZE.fullmatch(str(value))
    return int(found[1]) * _UNITS[found[2]] if found else 0
