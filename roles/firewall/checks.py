"""Checks the options of the firewall role before the role changes anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.access.networks import lies_in, network
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    _Wrong = tuple[str, str, str]

# Sources that a declaration may name in addition to the groups of the inventory.
SOURCES = ("cluster", "admins", "users", "anywhere")
_NETWORKS = {
    "cluster": "set hosts_address or ansible_host of the host, or declare cluster_networks",
    "admin_networks": "write addresses or networks, such as 10.0.0.0/24",
    "user_networks": "write addresses or networks, such as 10.0.0.0/24",
}
_HIGHEST = 65535
_PORTS = re.compile(r"(\d+)(?:-(\d+))?")
_DISABLE = {"firewalld": "systemctl disable --now firewalld", "ufw": "ufw disable"}


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return invalid options, and options that would lock out the provisioning host.

    Args:
        options: `cluster`, `admin_networks`, `user_networks`, `job_ports`, `open`: the options without their prefix.
        cluster: the `host`; the `groups` of the inventory; and `seen`, the lines that the host printed: `from ADDRESS`,
            the source of this run's SSH connection (without an address if it does not use SSH), and `active NAME`
            for another active firewall.
    """
    host, seen = cluster["host"], cluster["seen"]
    wrong = [*_network_problems(options), *_port_problems(options, cluster["groups"]), *_seen_problems(options, seen)]
    return [make_problem([host], f"firewall_{key}", problem, remedy) for key, problem, remedy in wrong]


def _network_problems(options: Known) -> Iterator[_Wrong]:
    for key, remedy in _NETWORKS.items():
        for text in options[key]:
            if network(text) is None:
                yield key, f"{text!r} is not a valid IP address or network", remedy


def _port_problems(options: Known, groups: Collection[str]) -> Iterator[_Wrong]:
    if not _ports_are_good(options["job_ports"]):
        yield "job_ports", f"{options['job_ports']!r} is not a valid port range", "use LOW-HIGH, such as 10000-65535"
    for service in options["open"]:
        name = service["service"]
        for ports in service["ports"]:
            if not _ports_are_good(ports):
                yield "open", f"{name}: {ports!r} is not a valid port", "use PORT or LOW-HIGH, from 1 to 65535"
        for source in service["from"]:
            if source not in SOURCES and source not in groups and network(source) is None:
                known = ", ".join(SOURCES)
                yield (
                    "open",
                    f"{name}: {source!r} is not a valid source",
                    f"write {known}, a group, an address or a network",
                )


def _seen_problems(options: Known, seen: Sequence[str]) -> Iterator[_Wrong]:
    for line in seen:
        word, _, what = line.partition(" ")
        if word == "active":
            yield "enabled", f"{what} is active on the host and would also filter the traffic", _DISABLE[what]
        elif word == "from" and what and not lies_in(what, [*options["cluster"], *options["admin_networks"]]):
            yield (
                "admin_networks",
                f"lacks {what}, the source of this run, which the rules would block",
                f"add it or its network, such as firewall_admin_networks: [{what}]",
            )


def _ports_are_good(text: object) -> bool:
    found = _PORTS.fullmatch(str(text))
    if not found:
        return False
    low, high = int(found[1]), int(found[2] or found[1])
    return 1 <= low <= high <= _HIGHEST
