"""Checks the options of the ldap_server role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_MIN_FIRST_NUMBER = 1000
# systemd, containers and the user nobody use the UIDs from this number on.
_MAX_NUMBER = 60000


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: `database_mb`, `first_number` and `password_min_length`.
        cluster: the `host`.
    """
    bounds = {
        "database_mb": (16, 1 << 20, "set MiB, such as 1024"),
        "first_number": (_MIN_FIRST_NUMBER, _MAX_NUMBER - 1, "set a GID that no host uses"),
        "password_min_length": (8, 255, "set a length, such as 12"),
    }
    return [
        make_problem([cluster["host"]], f"ldap_server_{key}", f"{options[key]} is not between {low} and {high}", remedy)
        for key, (low, high, remedy) in bounds.items()
        if not low <= int(options[key]) <= high
    ]
