"""Checks the options of the role alertmanager."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem
from ..common.placeholders import placeholder
from ..common.program_source import argument_problems, source_problems
from .alert_routes import routing_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["alertmanager_problems"]


def alertmanager_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the invalid options.

    Args:
        settings: the checked options of the role without its prefix, `architecture` of the host and `packaged`, whether
            its distribution has a package.
        host: for the messages.
    """
    problems = routing_problems(settings, host) + source_problems("alertmanager", settings, host)
    problems += argument_problems("alertmanager", settings["arguments"], host)
    url = str(settings["external_url"])
    if url and (not re.fullmatch(r"https?://[^\s/]+\S*", url) or placeholder(url)):
        remedy = "write the address by which people reach it, or leave it empty"
        problems.append(make_problem([host], "alertmanager_external_url", f"{url!r} is not an address of HTTP", remedy))
    if settings["peers"] and str(settings["cluster_address"]) in {"", "127.0.0.1", "::1", "localhost"}:
        remedy = "set it to the address of this host in the cluster's network"
        problems.append(
            make_problem([host], "alertmanager_cluster_address", "cannot be reached by alertmanager_peers", remedy)
        )
    return problems
