"""Checks the options of the storage_mounts role."""

from __future__ import annotations

from ...plugins.plugin_utils.preflight.storage import host_mount_problems
from ...plugins.plugin_utils.role_checks import Known, Problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid mounts.

    Args:
        options: `entries`, and `declared_in`, the variable that declares them.
        cluster: the `host`, the `servers` with exports, and `hostvars`.
    """
    host, servers, hostvars = cluster["host"], cluster["servers"], cluster["hostvars"]
    return host_mount_problems(host, options["declared_in"], options["entries"], servers, hostvars)
