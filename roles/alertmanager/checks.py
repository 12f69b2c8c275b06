"""Checks the options of the alertmanager role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.common.placeholders import placeholder
from ...plugins.plugin_utils.common.program_source import argument_problems, source_problems
from ...plugins.plugin_utils.monitoring.alert_routes import routing_problems, site_routing_problems
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: the checked options of the role without its prefix, `architecture` of the host, and `packaged`:
            whether its distribution has a package.
        cluster: the `host`.
    """
    host = cluster["host"]
    problems = routing_problems(options, host) + source_problems("alertmanager", options, host)
    problems += argument_problems("alertmanager", options["arguments"], host)
    url = str(options["external_url"])
    if url and (not re.fullmatch(r"https?://[^\s/]+\S*", url) or placeholder(url)):
        remedy = "set the URL under which users reach it, or leave it empty"
        problems.append(make_problem([host], "alertmanager_external_url", f"{url!r} is not an HTTP URL", remedy))
    if options["peers"] and str(options["cluster_address"]) in {"", "127.0.0.1", "::1", "localhost"}:
        remedy = "set it to this host's address in the cluster network"
        problems.append(
            make_problem([host], "alertmanager_cluster_address", "cannot be reached by alertmanager_peers", remedy)
        )
    return problems


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the alert settings of the monitoring hosts."""
    return site_routing_problems(cluster["monitoring"], cluster["hostvars"])


INVENTORY = {"alertmanager_receivers, alertmanager_routes": check_inventory}
