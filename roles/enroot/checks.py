"""Checks the options of the enroot role."""

from __future__ import annotations

from ...plugins.module_utils.containers.enroot_config import declaration_problems
from ...plugins.plugin_utils.preflight.software import CHECKSUM_REMEDY, is_on
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

# Versions of Enroot whose checksums the role contains.
KNOWN = ("4.1.2",)


def check(options: Known, _: Known) -> list[Problem]:
    """Return the settings that Enroot does not support."""
    return declaration_problems([], {}, options["settings"])


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the hosts whose Enroot packages cannot be verified."""
    hosts = {host: cluster["hostvars"][host] for host in cluster["groups"].get("all", [])}
    wrong = [host for host, each in hosts.items() if is_on(each, "enroot") and not _verified(each)]
    problem = "is empty, and the role contains no checksums of the sources of this version"
    remedy = f"use enroot_version {KNOWN[-1]} with the default enroot_packages, or {CHECKSUM_REMEDY}"
    return [make_problem(wrong, "enroot_checksums", problem, remedy)] if wrong else []


def _verified(variables: Known) -> bool:
    """Return whether the Enroot packages have checksums or are built from sources with known checksums."""
    known = str(variables.get("enroot_version", KNOWN[0])) in KNOWN
    return bool(variables.get("enroot_checksums")) or (known and "enroot_packages" not in variables)


INVENTORY = {"enroot_checksums": check_inventory}
