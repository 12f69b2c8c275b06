"""How dcgm-exporter runs on a host: its package, its arguments and its counters.

Sources: the systemd unit and the README of NVIDIA/dcgm-exporter, and its command line reference (docs.nvidia.com). The
package is `datacenter-gpu-manager-exporter` in NVIDIA's CUDA repository since DCGM 4; it
needs `datacenter-gpu-manager-4-core`. Releases before 4 are built against DCGM 3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem
from ..common.program_source import start_command
from ..common.socket_address import socket_address
from ..nvidia.cuda_support import version_key
from .dcgm_counters import counter_lines, counter_problems, counters_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..common.problems import Problem

__all__ = ["dcgm_exporter_plan"]

COUNTERS_FILE = "/etc/dcgm-exporter/busbar.csv"
WEB_CONFIG_FILE = "/etc/dcgm-exporter/web.yml"
PIN_PRIORITY = 1001
_PROGRAM = "/usr/bin/dcgm-exporter"
_SUM = re.compile(r"[0-9a-f]{64}")
_LOCAL = ("127.", "localhost", "[::1]", "::1")
_OURS = ("-f", "--collectors", "-a", "--address", "-r", "--remote-hostengine-info", "-c", "--collect-interval")


def dcgm_exporter_plan(gpu: Mapping[str, Any], settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return `problems`, `packages`, `files`, `pins`, `listen`, `command` and `counters` (their file) for a host.

    With problems there is nothing else.

    Args:
        gpu: the part ``gpu`` of its hardware profile.
        settings: the options of the role by their names without its own, ``architecture``, ``dcgm_source``,
            and ``package``, the name of its package.
        host: its name, for messages.
    """
    problems = [*_source_problems(settings, host), *_run_problems(settings, host)]
    for key in ("counters", "counters_extra"):
        problems += counter_problems(settings[key], f"dcgm_exporter_{key}", host)
    listen = socket_address(str(settings["address"]), settings["port"])
    command, wrong = start_command("dcgm_exporter", [_PROGRAM, *_arguments(settings, listen)], host)
    problems += wrong
    if problems:
        return {"problems": problems}
    counters = counters_of(gpu, settings["profiling"], settings["counters"], settings["counters_extra"])
    package, version = str(settings["package"]), str(settings["version"])
    pattern = version if "-" in version else f"{version}-*"
    return {
        "problems": [],
        "packages": [{"name": package, "version": version, "hold": bool(version) and bool(settings["hold"])}],
        "files": _files(settings) if settings["source"] == "url" else [],
        # Of the packages of DCGM some have an epoch and some have none.
        "pins": [
            {"packages": package, "version": f"{epoch}{pattern}", "priority": PIN_PRIORITY}
            for epoch in ("", "1:")
            if version
        ],
        "listen": listen,
        "command": command,
        "counters": "\n".join(counter_lines(counters)) + "\n",
    }


def _arguments(settings: Mapping[str, Any], listen: str) -> list[str]:
    words = ["-f", COUNTERS_FILE, "-a", listen, "-c", str(int(settings["interval_s"]) * 1000)]
    words += ["-r", settings["host_engine"]] if settings["host_engine"] else []
    words += ["--hpc-job-mapping-dir", settings["job_directory"]] if settings["job_directory"] else []
    words += ["--web-config-file", WEB_CONFIG_FILE] if settings["web_config"] else []
    return [*words, *(str(word) for word in settings["arguments"])]


def _files(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = settings["packages"][settings["architecture"]]
    source, _, name = str(given["url"]).rpartition("/")
    package = {"name": settings["package"], "version": str(given["version"]), "file": name}
    return [{"source": source, "packages": [{**package, "sha256": str(given["sha256"])}]}]


def _source_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return what is wrong with where the package comes from."""
    version, problems = str(settings["version"]), []
    if version and version_key(version.partition(":")[2] or version)[0] < 4:  # noqa: PLR2004 - as DCGM itself
        remedy = "name one such as 4.8.2-1; releases before 4 are built against DCGM 3"
        problems.append(make_problem([host], "dcgm_exporter_version", f"{version} does not work with DCGM 4", remedy))
    engine = str(settings["host_engine"])
    if settings["dcgm_source"] == "none" and engine.startswith(_LOCAL):
        said = f"dcgm_source is none, so that no host engine answers on {engine}"
        remedy = "set dcgm_source: nvidia, or dcgm_exporter_source: none; with dcgm_exporter_host_engine: '' the"
        remedy += " exporter runs an engine of its own, for which DCGM's libraries must be there"
        problems.append(make_problem([host], "dcgm_exporter_source", said, remedy))
    if settings["source"] == "url":
        given = (settings["packages"] or {}).get(settings["architecture"]) or {}
        key = f"dcgm_exporter_packages.{settings['architecture']}"
        remedy = "give url (of a deb or rpm), sha256 (64 digits) and version (as the package database tells it)"
        if lacking := [word for word in ("url", "sha256", "version") if not given.get(word)]:
            problems.append(make_problem([host], key, f"{', '.join(lacking)} is missing", remedy))
        elif not _SUM.fullmatch(str(given["sha256"])):
            problems.append(make_problem([host], key, f"sha256 {given['sha256']!r} is none", remedy))
    return problems


def _run_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return what is wrong with how it runs."""
    problems = []
    if not 1 <= int(settings["port"]) <= 65535:  # noqa: PLR2004 - the largest port
        said = f"{settings['port']} is no port"
        problems.append(make_problem([host], "dcgm_exporter_port", said, "give a number from 1 to 65535"))
    if int(settings["interval_s"]) < 1:
        said = f"{settings['interval_s']} is no interval"
        problems.append(make_problem([host], "dcgm_exporter_interval_s", said, "give seconds, 1 or more"))
    if ours := sorted({str(word).partition("=")[0] for word in settings["arguments"]} & set(_OURS)):
        remedy = "use the options of the role for these"
        problems.append(make_problem([host], "dcgm_exporter_arguments", f"{', '.join(ours)} is set already", remedy))
    return problems
