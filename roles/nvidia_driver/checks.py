"""Checks the options of the nvidia_driver role."""

from __future__ import annotations

from ...plugins.plugin_utils.nvidia.driver_problems import driver_problems, site_driver_problems
from ...plugins.plugin_utils.preflight.inventory import domain_problems
from ...plugins.plugin_utils.role_checks import Known, Problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the driver that is declared for a host.

    Args:
        options: the options of `driver_problems`.
        cluster: the `host`; `hardware`, its entry in the catalogue; and `system`, its distribution.
    """
    return driver_problems(cluster["hardware"], cluster["host"], options, cluster["system"])


def check_drivers(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the drivers of all compute nodes."""
    return site_driver_problems(cluster["compute"], cluster["hostvars"], cluster["catalogue"])


def check_domains(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems in the NVLink racks."""
    hosts = {name: cluster["hostvars"][name] for name in cluster["compute"]}
    domains = {name: each.get("nvlink_domain") for name, each in hosts.items()}
    hardware = {name: str(each.get("hardware") or "") for name, each in hosts.items()}
    return domain_problems(domains, hardware, cluster["catalogue"])


INVENTORY = {
    "nvidia_driver_*, hardware, hardware_profiles_extra": check_drivers,
    "nvlink_domain, hardware, hardware_profiles_extra": check_domains,
}
