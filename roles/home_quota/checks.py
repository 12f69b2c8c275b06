"""Checks the options of the home_quota role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...plugins.module_utils.storage.home_quota import is_size
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,63}")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: `default`, `users`, `soft_percent` and `path`.
        cluster: the `host`, and `exports`, the exports of each host in the group nfs_server.
    """
    exports: Mapping[str, Sequence[Known]] = cluster["exports"]
    sizes = {"home_quota_default": options["default"]} if options["default"] else {}
    sizes |= {f"home_quota_users.{name}": size for name, size in options["users"].items()}
    if not sizes:
        return []
    every = sorted(exports) or [cluster["host"]]
    wrong = [
        make_problem(every, key, f"{size!r} is not a valid size", "use a number with M, G or T, such as 200G, or none")
        for key, size in sizes.items()
        if not is_size(str(size))
    ]
    wrong += [
        make_problem(every, "home_quota_users", f"{name!r} is not a valid user name", "use the name that `id` prints")
        for name in options["users"]
        if not _USER.fullmatch(str(name))
    ]
    if not 1 <= int(options["soft_percent"]) <= 100:  # noqa: PLR2004 - percent
        problem = f"{options['soft_percent']} is not between 1 and 100"
        wrong.append(make_problem(every, "home_quota_soft_percent", problem, "write 90"))
    if not any(_holds(export["path"], str(options["path"])) for served in exports.values() for export in served):
        problem = f"no host in the group nfs_server exports {options['path']}, which contains the homes"
        remedy = "set the quota on the storage of the homes, or set users_home_base to a directory below an export"
        wrong.append(make_problem(every, "home_quota_default", problem, remedy))
    return wrong


def _holds(export: str, path: str) -> bool:
    """Return whether a directory is an export or below it."""
    return f"{path.rstrip('/')}/".startswith(f"{export.rstrip('/')}/")
