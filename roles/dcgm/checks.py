"""Checks the options of the dcgm role.

Sources for the exporter: the systemd unit and the README of NVIDIA/dcgm-exporter, and its command line reference
(docs.nvidia.com). The package is `datacenter-gpu-manager-exporter` in NVIDIA's CUDA repository since DCGM 4; it needs
`datacenter-gpu-manager-4-core`. Releases before 4 are built against DCGM 3.
"""

from __future__ import annotations

import re

from ...plugins.plugin_utils.common.program_source import argument_problems
from ...plugins.plugin_utils.monitoring.dcgm_counters import counter_problems
from ...plugins.plugin_utils.nvidia.cuda_support import version_key
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

MAJORS = ("11", "12", "13")
_SUM = re.compile(r"[0-9a-f]{64}")
_LOCAL = ("127.", "localhost", "[::1]", "::1")
_OURS = ("-f", "--collectors", "-a", "--address", "-r", "--remote-hostengine-info", "-c", "--collect-interval")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the reasons why DCGM cannot be installed.

    Args:
        options: `version` of the role; `driver` of the host; `majors`, the major versions of CUDA whose packages are
        installed, '' for an unsupported driver; and `waits`: whether the driver is not installed yet.
        cluster: the `host`.
    """
    host, problems = cluster.get("host", ""), []
    version = str(options.get("version") or "")
    majors = [str(each) for each in options.get("majors") or options.get("cuda") or []]
    if "" in majors and not options["waits"]:
        problem, remedy = _driver_problem(str(options["driver"]))
        problems.append(make_problem([host], "dcgm_driver_version", problem, remedy))
    if version and version_key(version.partition(":")[2] or version)[:1] != (4,):
        remedy = "set a version such as 4.4.1-1; DCGM 3 and older are not supported"
        problem = f"{version} is not a valid version of DCGM 4"
        problems.append(make_problem([host], "dcgm_version", problem, remedy))
    if unknown := sorted(set(majors) - {"", *MAJORS}):
        remedy = (
            f"use major versions from the list {', '.join(MAJORS)}. An empty list selects the version of the driver"
        )
        problem = f"DCGM 4 has no package for CUDA {', '.join(unknown)}"
        problems.append(make_problem([host], "dcgm_cuda", problem, remedy))
    return problems


def _driver_problem(driver: str) -> tuple[str, str]:
    """Return problem and remedy for a driver that no package supports."""
    if version_key(driver):
        return f"DCGM 4 has no package for driver {driver} (minimum 450)", "install a newer driver"
    problem = f"{driver!r} is not a valid version" if driver else "no driver is installed or declared"
    remedy = "install a driver (role nvidia_driver, or the image), or set dcgm_driver_version, dcgm_cuda or"
    return f"{problem}, and DCGM's packages depend on the driver's CUDA version", f"{remedy} dcgm_source: none"


def check_exporter(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: the checked options without the prefix dcgm_exporter, `architecture` of the host, `dcgm_source`, and
            `known`, the fields that the role exports by default.
        cluster: the `host`.
    """
    host = cluster["host"]
    problems = [*_source_problems(options, host), *_run_problems(options, host)]
    for key in ("counters", "counters_extra"):
        problems += counter_problems(options[key], options["known"], f"dcgm_exporter_{key}", host)
    return problems + argument_problems("dcgm_exporter", options["arguments"], host)


def _source_problems(options: Known, host: str) -> list[Problem]:
    """Return the invalid options of the package and of the host engine."""
    version, problems = str(options["version"]), []
    if version and version_key(version.partition(":")[2] or version)[0] < 4:  # noqa: PLR2004 - version of DCGM
        remedy = "set a version such as 4.8.2-1; older releases are built against DCGM 3"
        problems.append(make_problem([host], "dcgm_exporter_version", f"{version} does not work with DCGM 4", remedy))
    engine = str(options["host_engine"])
    if options["dcgm_source"] == "none" and engine.startswith(_LOCAL):
        problem = f"dcgm_source is none, so no host engine answers on {engine}"
        remedy = "set dcgm_source: nvidia, or dcgm_exporter_source: none; with dcgm_exporter_host_engine: '' the"
        remedy += " exporter runs an embedded engine, which needs DCGM's libraries"
        problems.append(make_problem([host], "dcgm_exporter_source", problem, remedy))
    if options["source"] == "url":
        given = (options["packages"] or {}).get(options["architecture"]) or {}
        key = f"dcgm_exporter_packages.{options['architecture']}"
        remedy = "set url (of a deb or rpm), sha256 (64 digits) and version (as in the package database)"
        if lacking := [word for word in ("url", "sha256", "version") if not given.get(word)]:
            problems.append(make_problem([host], key, f"{', '.join(lacking)} is missing", remedy))
        elif not _SUM.fullmatch(str(given["sha256"])):
            problems.append(make_problem([host], key, f"sha256 {given['sha256']!r} is not valid", remedy))
    return problems


def _run_problems(options: Known, host: str) -> list[Problem]:
    """Return the invalid port, interval and arguments."""
    problems = []
    if not 1 <= int(options["port"]) <= 65535:  # noqa: PLR2004 - the largest port
        problem = f"{options['port']} is not a valid port"
        problems.append(make_problem([host], "dcgm_exporter_port", problem, "set a number from 1 to 65535"))
    if int(options["interval_s"]) < 1:
        problem = f"{options['interval_s']} is not a valid interval"
        problems.append(make_problem([host], "dcgm_exporter_interval_s", problem, "set seconds, at least 1"))
    if ours := sorted({str(word).partition("=")[0] for word in options["arguments"]} & set(_OURS)):
        remedy = "use the dcgm_exporter options of the role for these arguments"
        problems.append(make_problem([host], "dcgm_exporter_arguments", f"{', '.join(ours)} is already set", remedy))
    return problems
