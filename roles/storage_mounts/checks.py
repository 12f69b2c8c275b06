"""Checks the options of the role storage_mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.preflight.storage import storage_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem


def check(options: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid mounts.

    Args:
        options: `entries`, and `declared_in`, the variable that declares them.
        cluster: the `host`, the `servers` that export, and `hostvars`.
    """
    servers, hostvars = cluster["servers"], cluster["hostvars"]
    key, host = options["declared_in"], cluster["host"]
    return storage_problems(options["entries"], key, host, servers=servers, variables=hostvars)
