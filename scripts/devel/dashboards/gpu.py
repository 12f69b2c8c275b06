"""All GPUs: work, memory, power, heat, and everything that says that one is about to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, node_variable, query_variable
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import of_node, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

GPU = 'gpu=~"$gpu"'
NAME = "{{node}} GPU {{gpu}}"
FINE_OR_BAD = ((0, "green"), (1, "red"))
HEAT = ((0, "green"), (80, "yellow"), (90, "red"))
# Bits of NVML's clocks event reasons (nvml.h, nvmlClocksEventReason*): power cap, hardware slowdown, thermal by
# software and by hardware, external power brake.
REASONS = {4: "power cap", 8: "hardware slowdown", 32: "heat (driver)", 64: "heat (hardware)", 128: "power brake"}


def make() -> Dashboard:
    """Return the dashboard."""
    rows = [
        ("Now", _now()),
        ("Work", _work()),
        ("Power and heat", _heat()),
        ("Faults", _faults()),
        ("NVLink and PCIe", _links()),
    ]
    gpus = query_variable("gpu", "GPU", 'label_values(gpu:utilization:ratio{cluster=~"$cluster",node=~"$node"}, gpu)')
    description = "Utilisation, memory, power, temperature, throttling, ECC, Xid and NVLink by node and GPU."
    return board("gpu", "GPU", description, rows, [node_variable("gpu:utilization:ratio"), gpus])


def _of(metric: str, *matchers: str) -> str:
    return of_node(metric, GPU, *matchers)


def _each(metric: str) -> str:
    """Return one series for each GPU: one that several jobs share has a series for each of them."""
    return f"max by (node, gpu) ({_of(metric)})"


def _now() -> list[Placed]:
    used, total = _of("gpu:memory_used:bytes"), _of("gpu:memory_total:bytes")
    owned = "max by (node, gpu, job, user)"
    return [
        stats(
            "GPUs that answer",
            "GPUs of which metrics come, and how many the inventory says that the chosen nodes have.",
            "none",
            query(f"count({_each('gpu:utilization:ratio')})", "answer"),
            query(f"sum({of_node('busbar_node_expected_gpus')})", "expected"),
        ),
        stats(
            "Utilisation",
            "Mean over the chosen GPUs of the share of time in which a kernel ran.",
            "percentunit",
            query(f"avg({_each('gpu:utilization:ratio')})"),
            decimals=0,
        ),
        stats(
            "Memory in use",
            "Share of the memory of the chosen GPUs that is in use.",
            "percentunit",
            query(f"sum({_each('gpu:memory_used:bytes')}) / sum({_each('gpu:memory_total:bytes')})"),
            decimals=0,
        ),
        stats("Power", "What the chosen GPUs draw together.", "watt", query(f"sum({_each('gpu:power:watts')})")),
        stats(
            "Hottest",
            "Temperature of the hottest of the chosen GPUs.",
            "celsius",
            query(f"max({_of('gpu:temperature:celsius')})"),
            steps=HEAT,
        ),
        stats(
            "GPUs with a double-bit error",
            "GPUs with an ECC error that could not be corrected since the driver was loaded. They want a reset or a"
            " replacement.",
            "none",
            query(f"count({_of('DCGM_FI_DEV_ECC_DBE_VOL_TOTAL')} > 0) or 0 * count({_of('gpu:utilization:ratio')})"),
            steps=FINE_OR_BAD,
        ),
        tabled(
            "GPUs now",
            "Every chosen GPU with what it does, and for which job.",
            [
                f"{owned} ({_of('gpu:utilization:ratio')})",
                f"{owned} ({used}) / {owned} ({total})",
                f"{owned} ({_of('gpu:power:watts')})",
                f"{owned} ({_of('gpu:temperature:celsius')})",
            ],
            {
                "node": Column("Node", link=board_link("node", node="${__value.raw}"), width=140),
                "gpu": Column("GPU", width=70),
                "job": Column("Job", link=board_link("job", job="${__value.raw}"), width=100),
                "user": Column("User", width=120),
                "Value #A": Column("Utilisation", unit="percentunit"),
                "Value #B": Column("Memory", unit="percentunit"),
                "Value #C": Column("Power", unit="watt"),
                "Value #D": Column("Temperature", unit="celsius", steps=HEAT),
            },
            sort="node",
            descending=False,
            width=24,
        ),
    ]


def _work() -> list[Placed]:
    return [
        graph(
            "Utilisation",
            "Share of time in which a kernel ran. It says that a GPU is in use, not that it is used well.",
            "percentunit",
            query(_each("gpu:utilization:ratio"), NAME),
            high=1,
        ),
        graph(
            "Tensor cores",
            "Share of cycles in which the tensor cores worked: how well training uses a GPU.",
            "percentunit",
            query(_each("gpu:tensor_active:ratio"), NAME),
            high=1,
        ),
        graph(
            "Memory",
            "Memory in use.",
            "bytes",
            query(_each("gpu:memory_used:bytes"), NAME),
        ),
        graph(
            "Clock of the SMs",
            "Clock of the streaming multiprocessors. A drop under load is throttling.",
            "hertz",
            query(f"{_each('DCGM_FI_DEV_SM_CLOCK')} * 1e6", NAME),
        ),
    ]


def _heat() -> list[Placed]:
    return [
        graph("Power", "What each GPU draws.", "watt", query(_each("gpu:power:watts"), NAME)),
        graph(
            "Temperature",
            "Temperature of each GPU.",
            "celsius",
            query(_each("gpu:temperature:celsius"), NAME),
            steps=HEAT,
        ),
        graph(
            "Temperature of the memory",
            "Temperature of each GPU's memory, where it has a sensor.",
            "celsius",
            query(_each("DCGM_FI_DEV_MEMORY_TEMP"), NAME),
            steps=((0, "green"), (90, "yellow"), (100, "red")),
        ),
        graph(
            "Throttling",
            "GPUs whose clock is held down, by reason. A power cap under full load is normal; the others are not.",
            "none",
            *[
                query(f"sum(floor({_of('DCGM_FI_DEV_CLOCKS_EVENT_REASONS')} / {bit}) % 2)", words)
                for bit, words in REASONS.items()
            ],
        ),
    ]


def _faults() -> list[Placed]:
    return [
        graph(
            "Last Xid",
            "Number of the last Xid error of each GPU, 0 for none. 48, 63, 64, 79, 94 and 95 are the hardware's;"
            " 13, 31 and 43 are most often a program's.",
            "none",
            query(_each("DCGM_FI_DEV_XID_ERRORS"), NAME),
        ),
        graph(
            "ECC errors",
            "Memory errors since the driver was loaded: single-bit ones were corrected, double-bit ones were not.",
            "none",
            query(f"sum by (node) ({_of('DCGM_FI_DEV_ECC_SBE_VOL_TOTAL')})", "{{node}} corrected"),
            query(f"sum by (node) ({_of('DCGM_FI_DEV_ECC_DBE_VOL_TOTAL')})", "{{node}} not corrected"),
        ),
        graph(
            "Remapped rows",
            "Rows of memory that were replaced by spare ones after errors. A failed remapping means a replacement.",
            "none",
            query(f"sum by (node) ({_of('DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS')})", "{{node}} corrected errors"),
            query(f"sum by (node) ({_of('DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS')})", "{{node}} uncorrected errors"),
            query(f"sum by (node) ({_of('DCGM_FI_DEV_ROW_REMAP_FAILURE')})", "{{node}} failed"),
        ),
        graph(
            "PCIe replays",
            "Transfers over PCIe that had to be repeated. Steady growth is a bad slot, riser or cable.",
            "cps",
            query(f"sum by (node, gpu) ({rate(_of('DCGM_FI_DEV_PCIE_REPLAY_COUNTER'))})", NAME),
        ),
    ]


def _links() -> list[Placed]:
    kinds = {
        "CRC": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "replay": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "recovery": "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    }
    return [
        graph(
            "NVLink",
            "What each GPU sends and receives over NVLink.",
            "Bps",
            query(_each("gpu:nvlink:bytes_per_second"), NAME),
        ),
        graph(
            "NVLink errors",
            "Errors on NVLink. Recoveries interrupt all links of a GPU; any growth lowers what NCCL reaches.",
            "cps",
            *[query(f"sum by (node) ({rate(_of(metric))})", "{{node}} " + words) for words, metric in kinds.items()],
        ),
        graph(
            "PCIe",
            "What each GPU receives from and sends to its host.",
            "Bps",
            query(_each("DCGM_FI_PROF_PCIE_RX_BYTES"), f"{NAME} in"),
            query(_each("DCGM_FI_PROF_PCIE_TX_BYTES"), f"{NAME} out"),
            width=24,
        ),
    ]
