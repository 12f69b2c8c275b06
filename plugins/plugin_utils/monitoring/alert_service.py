"""How Alertmanager is installed and started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem
from ..common.placeholders import placeholder
from ..common.program_source import source_problems
from ..common.socket_address import socket_address
from .prometheus_plan import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["alertmanager_arguments", "service_problems"]


def service_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return what keeps it from being installed, or from being reached.

    Args:
        settings: the options of the role without its name, `architecture` and `packaged`.
        host: who runs it.
    """
    problems = source_problems("alertmanager", settings, host)
    url = str(settings["external_url"])
    if url and (not re.fullmatch(r"https?://[^\s/]+\S*", url) or placeholder(url)):
        remedy = "write the address by which people reach it, or leave it empty"
        problems.append(make_problem([host], "alertmanager_external_url", f"{url!r} is no address of HTTP", remedy))
    if settings["peers"] and str(settings["cluster_address"]) in {"", "127.0.0.1", "::1", "localhost"}:
        remedy = "set it to the address of this host in the cluster's network"
        problems.append(
            make_problem([host], "alertmanager_cluster_address", "cannot be reached by alertmanager_peers", remedy)
        )
    return problems


def alertmanager_arguments(settings: Mapping[str, Any]) -> list[str]:
    """Return the flags."""
    port, own = settings["cluster_port"], settings["cluster_address"]
    return [
        f"--config.file={settings['config_file']}",
        f"--storage.path={settings['storage_path']}",
        # It takes Go's durations, which know no days.
        f"--data.retention={int(duration_seconds(str(settings['retention'])))}s",
        f"--web.listen-address={socket_address(settings['address'], settings['port'])}",
        *([f"--web.external-url={settings['external_url']}"] if settings["external_url"] else []),
        *([f"--web.config.file={settings['web_config_file']}"] if settings["web_config"] else []),
        # Alone it needs no cluster, and an empty address means that there is none.
        f"--cluster.listen-address={socket_address(own, port) if settings['peers'] else ''}",
        *(
            [f"--cluster.tls-config={settings['cluster_tls_file']}"]
            if settings["peers"] and settings["cluster_tls"]
            else []
        ),
        *(f"--cluster.peer={socket_address(peer, port)}" for peer in settings["peers"]),
        *(str(each) for each in settings["arguments"]),
    ]
