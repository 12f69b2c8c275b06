"""Checks the options of the backup role before the role changes anything."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

# https://restic.readthedocs.io/en/stable/060_forget.html#removing-snapshots-according-to-a-policy
_KEEP = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
_REPOSITORY = re.compile(r"/|(sftp|rest|s3|b2|azure|gs|swift|rclone):.")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the options that prevent backups of a host.

    Args:
        options: the options of the role without its prefix.
        cluster: the `host`, and `known`, the hosts of the inventory.
    """
    host, known = cluster["host"], cluster["known"]
    found = []

    def add(key: str, problem: str, remedy: str) -> None:
        found.append(make_problem([host], f"backup_{key}", problem, remedy))

    keeper, repository = str(options["host"]), str(options["repository"])
    if keeper and repository:
        add("repository", f"is set, but backup_host is also set ({keeper})", "set one of them")
    if keeper and keeper not in known:
        add("host", f"{keeper!r} is not in the inventory", "use the name of a host in the inventory")
    if repository and not _REPOSITORY.match(repository):
        add(
            "repository",
            f"{repository!r} is not an absolute path or a repository URL of restic",
            "write /path, sftp:USER@HOST:/path, s3:https://…, rest:https://… or another URL of restic",
        )
    if not str(options["directory"]).startswith("/"):
        add("directory", f"{options['directory']!r} is not an absolute path", "use a path such as /var/backups/busbar")
    keep: Known = options["keep"]
    strange = sorted(set(keep) - set(_KEEP))
    if strange:
        add("keep", f"{', '.join(strange)} is not known", f"use {', '.join(_KEEP)}")
    if any(not str(count).isdigit() for count in keep.values()) or not any(
        str(count).isdigit() and int(count) for count in keep.values()
    ):
        add(
            "keep",
            f"{dict(keep)} keeps no snapshot or has an invalid count",
            "use counts such as {daily: 14, weekly: 8}",
        )
    if float(options["max_age"]) <= 0:
        add("max_age", f"found {options['max_age']} h, expected more than 0", "set hours, such as 26")
    relative = [path for path in options["paths"] if not str(path).startswith("/")]
    if relative:
        add("paths", f"found relative paths ({', '.join(map(str, relative))})", "use absolute paths")
    return found
