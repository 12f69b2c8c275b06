"""Check the counters that a site adds to the defaults of dcgm-exporter."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["FIELDS", "KINDS", "counter_problems"]

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
