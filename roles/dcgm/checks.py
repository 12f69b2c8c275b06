"""Checks the options of the dcgm role.

Sources for the exporter: the systemd unit and the README of NVIDIA/dcgm-exporter, and its command line reference
(docs.nvidia.com). The package is `datacenter-gpu-manager-exporter` in NVIDIA's CUDA repository since DCGM 4; it needs
`datacenter-gpu-manager-4-core`. Releases before 4 are built against DCGM 3.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.common.program_source import argument_problems
from ...plugins.plugin_utils.nvidia.cuda_support import version_key
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


MAJORS = ("11", "12", "13")
_SUM = re.compile(r"[0-9a-f]{64}")
_LOCAL = ("127.", "localhost", "[::1]", "::1")
_OURS = ("-f", "--collectors", "-a", "--address", "-r", "--remote-hostengine-info", "-c", "--collect-interval")
KINDS = ("gauge", "counter", "label")
# The counters file is CSV with three fields, in which a quotation mark after a space is an error (dcgm-exporter,
# internal/pkg/counters/counter_config.go; Go, encoding/csv).
_NOT_IN_HELP = (",", '"', "\n", "\r")
_FIELD = re.compile(r"^DCGM_(FI|EXP)_[A-Z0-9_]+$")


# Fields of DCGM that the role does not read by default. Unknown fields require `unchecked`.
_MORE = """
DEV_CLOCK_THROTTLE_REASONS DEV_VIDEO_CLOCK DEV_APP_SM_CLOCK DEV_APP_MEM_CLOCK DEV_MAX_SM_CLOCK DEV_MAX_MEM_CLOCK
DEV_PSTATE DEV_FAN_SPEED DEV_POWER_USAGE_INSTANT DEV_ENFORCED_POWER_LIMIT DEV_POWER_MGMT_LIMIT_MIN
DEV_POWER_MGMT_LIMIT_MAX DEV_POWER_MGMT_LIMIT_DEF DEV_SHUTDOWN_TEMP DEV_GPU_MAX_OP_TEMP DEV_MEM_MAX_OP_TEMP
DEV_PCIE_TX_THROUGHPUT DEV_PCIE_RX_THROUGHPUT DEV_PCIE_MAX_LINK_GEN DEV_PCIE_MAX_LINK_WIDTH DEV_BAR1_TOTAL DEV_BAR1_USED
DEV_BAR1_FREE DEV_FB_USED_PERCENT DEV_COMPUTE_MODE DEV_PERSISTENCE_MODE DEV_MIG_MODE DEV_ECC_CURRENT DEV_ECC_PENDING
DEV_ECC_SBE_VOL_L1 DEV_ECC_DBE_VOL_L1 DEV_ECC_SBE_VOL_L2 DEV_ECC_DBE_VOL_L2 DEV_ECC_SBE_VOL_DEV DEV_ECC_DBE_VOL_DEV
DEV_ECC_SBE_VOL_REG DEV_ECC_DBE_VOL_REG DEV_ECC_SBE_VOL_TEX DEV_ECC_DBE_VOL_TEX DEV_ECC_SBE_AGG_L1 DEV_ECC_DBE_AGG_L1
DEV_ECC_SBE_AGG_L2 DEV_ECC_DBE_AGG_L2 DEV_ECC_SBE_AGG_DEV DEV_ECC_DBE_AGG_DEV DEV_ECC_SBE_AGG_REG DEV_ECC_DBE_AGG_REG
DEV_ECC_SBE_AGG_TEX DEV_ECC_DBE_AGG_TEX DEV_BANKS_REMAP_ROWS_AVAIL_MAX DEV_BANKS_REMAP_ROWS_AVAIL_HIGH
DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL DEV_BANKS_REMAP_ROWS_AVAIL_LOW DEV_BANKS_REMAP_ROWS_AVAIL_NONE
DEV_SYNC_BOOST_VIOLATION DEV_BOARD_LIMIT_VIOLATION DEV_LOW_UTIL_VIOLATION DEV_RELIABILITY_VIOLATION
DEV_TOTAL_APP_CLOCKS_VIOLATION DEV_TOTAL_BASE_CLOCKS_VIOLATION DEV_VGPU_LICENSE_STATUS DEV_FABRIC_MANAGER_STATUS
DEV_NVSWITCH_LINK_THROUGHPUT_TX DEV_NVSWITCH_LINK_THROUGHPUT_RX DEV_NVSWITCH_FATAL_ERRORS DEV_NVSWITCH_NON_FATAL_ERRORS
DEV_NVSWITCH_TEMPERATURE_CURRENT DEV_NAME DEV_BRAND DEV_SERIAL DEV_UUID DEV_PCI_BUSID DEV_VBIOS_VERSION
DEV_OEM_INFOROM_VER DEV_ECC_INFOROM_VER DEV_POWER_INFOROM_VER DEV_INFOROM_IMAGE_VER DEV_MINOR_NUMBER NVML_VERSION
CUDA_DRIVER_VERSION PROCESS_NAME PROF_PIPE_INT_ACTIVE PROF_PIPE_TENSOR_IMMA_ACTIVE PROF_PIPE_TENSOR_HMMA_ACTIVE
PROF_PIPE_TENSOR_DFMA_ACTIVE DEV_CPU_UTIL_TOTAL DEV_CPU_TEMP_CURRENT DEV_CPU_POWER_UTIL_CURRENT DEV_CPU_CLOCK_CURRENT
"""
_EXPORTER = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_GPU_HEALTH_STATUS")
FIELDS = frozenset(
    [f"DCGM_FI_{name}" for name in _MORE.split()]
    + [f"DCGM_FI_DEV_NVLINK_{kind}_L{link}" for link in range(18) for kind in ("BANDWIDTH", "REPLAY_ERROR_COUNT")]
    + [f"DCGM_FI_DEV_NVLINK_{kind}_L{link}" for link in range(18) for kind in ("RECOVERY_ERROR_COUNT",)]
    + [f"DCGM_FI_DEV_NVLINK_CRC_{kind}_ERROR_COUNT_L{link}" for link in range(18) for kind in ("FLIT", "DATA")]
    + [f"DCGM_FI_PROF_NVLINK_L{link}_{way}_BYTES" for link in range(18) for way in ("TX", "RX")]
    + list(_EXPORTER)
)


def counter_problems(items: Iterable[Mapping[str, Any]], read: Collection[str], key: str, host: str) -> list[Problem]:
    """Return the problems with counters that would prevent dcgm-exporter from starting.

    Args:
        items: the site's counters.
        read: the fields that the role reads by default.
        key: the option that declares them.
        host: name for the messages.
    """
    known = FIELDS | set(read)
    problems: list[Problem] = []
    for item in items:
        name, kind = str(item.get("name") or ""), str(item.get("type") or "gauge")
        place = f"{key}[{name}]"
        if not _FIELD.match(name) or (name not in known and not item.get("unchecked")):
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"write {near[0]}" if near else "use a name from DCGM's list of field identifiers"
            remedy += "; for a field that busbar does not know, set unchecked: true"
            problem = "is not a field of DCGM, so dcgm-exporter would not start"
            problems.append(make_problem([host], place, problem, remedy))
        if kind not in (*KINDS, "none"):
            wanted = f"use one of {', '.join((*KINDS, 'none'))} (none omits the field)"
            problems.append(make_problem([host], place, f"type {kind!r} is unknown", wanted))
        if any(mark in str(item.get("help") or "") for mark in _NOT_IN_HELP):
            remedy = "write it on one line, without commas and quotation marks"
            problem = "help contains a comma, quotation mark or line break, so dcgm-exporter would not start"
            problems.append(make_problem([host], place, problem, remedy))
    return problems


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
