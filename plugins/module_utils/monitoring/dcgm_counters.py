"""What dcgm-exporter reads of each GPU: the lines of its counters file.

Names, kinds and units are those of DCGM's field identifiers (dcgm_fields.h of DCGM 4) and of the counter files that
dcgm-exporter comes with. Units are in the help texts.

Profiling metrics (DCGM's user guide, "Profiling Metrics") come from hardware counters that only GPUs for data centers
have, from Volta on; a GeForce or a workstation card gives a part of them or none. While they are read no other
profiler, such as Nsight, can use these counters.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.problems import make_problem
from ..nvidia.driver_choice import generation_of_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..common.problems import Problem

__all__ = ["DEVICE_COUNTERS", "KINDS", "PROFILING_COUNTERS", "Counter", "counter_lines", "counters_of", "has_profiling"]

KINDS = ("gauge", "counter", "label")
NO_PROFILING = ("maxwell", "pascal")
# Cards without (all) counters of the profiler, by what their names begin with after the brand.
_NO_DATA_CENTER = re.compile(r"geforce|\brtx\b|\bgtx\b|quadro|titan", re.IGNORECASE)
# The file is read as CSV of exactly three fields, in which a quotation mark after a blank is an error (dcgm-exporter,
# internal/pkg/counters/counter_config.go; Go, encoding/csv).
_NOT_IN_HELP = (",", '"', "\n", "\r")
_FIELD = re.compile(r"^DCGM_(FI|EXP)_[A-Z0-9_]+$")


class Counter(NamedTuple):
    """A line of the counters file."""

    name: str
    kind: str
    help: str


def _table(prefix: str, text: str) -> tuple[Counter, ...]:
    rows = [[word.strip() for word in line.split("|")] for line in text.strip().splitlines()]
    return tuple(Counter(prefix + name, kind, said) for name, kind, said in rows)


DEVICE_COUNTERS = _table(
    "DCGM_FI_",
    """
    DRIVER_VERSION | label | Version of the driver
    DEV_GPU_UTIL | gauge | Share of time in which a kernel ran (%)
    DEV_MEM_COPY_UTIL | gauge | Share of time in which memory was read or written (%)
    DEV_ENC_UTIL | gauge | Use of the encoder (%)
    DEV_DEC_UTIL | gauge | Use of the decoder (%)
    DEV_FB_TOTAL | gauge | Memory (MiB)
    DEV_FB_USED | gauge | Memory in use (MiB)
    DEV_FB_FREE | gauge | Memory that is free (MiB)
    DEV_FB_RESERVED | gauge | Memory that the driver keeps for itself (MiB)
    DEV_POWER_USAGE | gauge | Power draw (W)
    DEV_POWER_MGMT_LIMIT | gauge | Power limit in force (W)
    DEV_TOTAL_ENERGY_CONSUMPTION | counter | Energy since the driver was loaded (mJ)
    DEV_GPU_TEMP | gauge | Temperature (C)
    DEV_MEMORY_TEMP | gauge | Temperature of the memory (C)
    DEV_SLOWDOWN_TEMP | gauge | Temperature at which the GPU slows down (C)
    DEV_SM_CLOCK | gauge | Clock of the multiprocessors (MHz)
    DEV_MEM_CLOCK | gauge | Clock of the memory (MHz)
    DEV_CLOCKS_EVENT_REASONS | gauge | Why the clocks are as they are (mask of bits as in nvml.h)
    DEV_POWER_VIOLATION | counter | Time in which the power limit slowed the GPU down (ns)
    DEV_THERMAL_VIOLATION | counter | Time in which heat slowed the GPU down (ns)
    DEV_XID_ERRORS | gauge | Number of the last Xid
    DEV_ECC_SBE_VOL_TOTAL | counter | Corrected ECC errors since the driver was loaded
    DEV_ECC_DBE_VOL_TOTAL | counter | Uncorrectable ECC errors since the driver was loaded
    DEV_ECC_SBE_AGG_TOTAL | counter | Corrected ECC errors of the GPU's life
    DEV_ECC_DBE_AGG_TOTAL | counter | Uncorrectable ECC errors of the GPU's life
    DEV_RETIRED_SBE | counter | Pages retired for corrected errors
    DEV_RETIRED_DBE | counter | Pages retired for uncorrectable errors
    DEV_RETIRED_PENDING | counter | Pages that the next reset retires
    DEV_CORRECTABLE_REMAPPED_ROWS | counter | Rows remapped for corrected errors
    DEV_UNCORRECTABLE_REMAPPED_ROWS | counter | Rows remapped for uncorrectable errors
    DEV_ROW_REMAP_PENDING | gauge | Whether the next reset remaps rows
    DEV_ROW_REMAP_FAILURE | gauge | Whether remapping of rows has failed
    DEV_PCIE_REPLAY_COUNTER | counter | Replays on the PCIe link
    DEV_PCIE_LINK_GEN | gauge | Generation of PCIe of the link as it is now
    DEV_PCIE_LINK_WIDTH | gauge | Lanes of the PCIe link as it is now
    DEV_NVLINK_BANDWIDTH_TOTAL | counter | Data over all NVLinks as the driver counts it
    DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL | counter | CRC errors of flow control on all NVLinks
    DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL | counter | CRC errors of data on all NVLinks
    DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL | counter | Replays on all NVLinks
    DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL | counter | Recoveries on all NVLinks
    """,
)
PROFILING_COUNTERS = _table(
    "DCGM_FI_PROF_",
    """
    GR_ENGINE_ACTIVE | gauge | Share of time in which the compute or graphics engine was active (ratio)
    SM_ACTIVE | gauge | Share of cycles with a warp on a multiprocessor (mean of all as a ratio)
    SM_OCCUPANCY | gauge | Warps on the multiprocessors of those that fit (ratio)
    PIPE_TENSOR_ACTIVE | gauge | Share of cycles in which the tensor cores were active (ratio)
    PIPE_FP64_ACTIVE | gauge | Share of cycles in which the FP64 pipe was active (ratio)
    PIPE_FP32_ACTIVE | gauge | Share of cycles in which the FP32 pipe was active (ratio)
    PIPE_FP16_ACTIVE | gauge | Share of cycles in which the FP16 pipe was active (ratio)
    DRAM_ACTIVE | gauge | Share of cycles in which memory was read or written (ratio)
    PCIE_TX_BYTES | gauge | Data over PCIe from the GPU (bytes per second)
    PCIE_RX_BYTES | gauge | Data over PCIe to the GPU (bytes per second)
    NVLINK_TX_BYTES | gauge | Data over NVLink from the GPU (bytes per second)
    NVLINK_RX_BYTES | gauge | Data over NVLink to the GPU (bytes per second)
    """,
)
# Further fields that sites ask for; a field that is in no table here is taken with `unchecked`.
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
KNOWN = frozenset(
    [counter.name for counter in (*DEVICE_COUNTERS, *PROFILING_COUNTERS)]
    + [f"DCGM_FI_{name}" for name in _MORE.split()]
    + [f"DCGM_FI_DEV_NVLINK_{kind}_L{link}" for link in range(18) for kind in ("BANDWIDTH", "REPLAY_ERROR_COUNT")]
    + [f"DCGM_FI_DEV_NVLINK_{kind}_L{link}" for link in range(18) for kind in ("RECOVERY_ERROR_COUNT",)]
    + [f"DCGM_FI_DEV_NVLINK_CRC_{kind}_ERROR_COUNT_L{link}" for link in range(18) for kind in ("FLIT", "DATA")]
    + [f"DCGM_FI_PROF_NVLINK_L{link}_{way}_BYTES" for link in range(18) for way in ("TX", "RX")]
    + list(_EXPORTER)
)


def has_profiling(gpu: Mapping[str, Any]) -> bool:
    """Return whether a GPU of the hardware catalogue has the counters of the profiler, all of them."""
    model = str(gpu.get("model") or "")
    generation = gpu.get("generation") or generation_of_model(model)
    return bool(generation) and generation not in NO_PROFILING and not _NO_DATA_CENTER.search(model)


def counters_of(
    gpu: Mapping[str, Any], profiling: str, replacing: Iterable[Mapping[str, Any]], extra: Iterable[Mapping[str, Any]]
) -> list[Counter]:
    """Return what is read of a host's GPUs.

    Args:
        gpu: the part ``gpu`` of its hardware profile.
        profiling: ``auto`` goes by the GPU, ``always`` and ``never`` do not.
        replacing: the site's own list in place of ours, unless empty; each with ``name``, ``type`` and ``help``.
        extra: the site's additions; one of a name that is there already takes its place, one of type none removes it.
    """
    own = DEVICE_COUNTERS + (PROFILING_COUNTERS if profiling == "always" else ())
    own += PROFILING_COUNTERS if profiling == "auto" and has_profiling(gpu) else ()
    given = [_counter(item) for item in replacing]
    found = {counter.name: counter for counter in given or own}
    found |= {counter.name: counter for counter in (_counter(item) for item in extra)}
    return [counter for counter in found.values() if counter.kind != "none"]


def _counter(item: Mapping[str, Any]) -> Counter:
    return Counter(str(item["name"]), str(item.get("type") or "gauge"), str(item.get("help") or item["name"]))


def counter_lines(counters: Iterable[Counter]) -> list[str]:
    """Return the lines of the counters file."""
    return [f"{counter.name}, {counter.kind}, {counter.help}" for counter in counters]


def counter_problems(items: Iterable[Mapping[str, Any]], key: str, host: str) -> list[Problem]:
    """Return what is wrong with a site's counters; dcgm-exporter does not start with a field that it does not know."""
    problems: list[Problem] = []
    for item in items:
        name, kind = str(item.get("name") or ""), str(item.get("type") or "gauge")
        place = f"{key}[{name}]"
        if not _FIELD.match(name) or (name not in KNOWN and not item.get("unchecked")):
            near = difflib.get_close_matches(name, KNOWN, 1)
            remedy = f"write {near[0]}" if near else "take a name from DCGM's list of field identifiers"
            remedy += "; a field that DCGM has and busbar does not know is taken with unchecked: true"
            said = "is no field of DCGM, so that dcgm-exporter would not start"
            problems.append(make_problem([host], place, said, remedy))
        if kind not in (*KINDS, "none"):
            wanted = f"use one of {', '.join((*KINDS, 'none'))}; none leaves a field out"
            problems.append(make_problem([host], place, f"type {kind!r} is unknown", wanted))
        if any(mark in str(item.get("help") or "") for mark in _NOT_IN_HELP):
            remedy = "write it in one line, without commas and quotation marks"
            said = "help breaks the line of the counters file, so that dcgm-exporter would not start"
            problems.append(make_problem([host], place, said, remedy))
    return problems
