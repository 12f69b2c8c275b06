"""One node: what Slurm says of it, its jobs, CPU, memory, pressure, disks, network and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, node_variable
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import ETHERNET, FILESYSTEMS, RATE, VERDICTS, equal, of_cluster, of_node, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

FULL = ((0, "green"), (0.85, "yellow"), (0.95, "red"))
WAITS = ((0, "green"), (0.2, "yellow"), (0.6, "red"))
CLOCK = ((0, "green"), (0.05, "yellow"), (0.5, "red"))


def make() -> Dashboard:
    """Return the dashboard."""
    rows = [
        ("State", _state()),
        ("CPU and memory", _cpu()),
        ("Pressure", _pressure()),
        ("Disk and network", _disk()),
        ("GPUs", _gpus()),
    ]
    description = "Slurm's state and jobs, CPU, memory, pressure, disks, network and GPUs of one node."
    return board("node", "Node", description, rows, [node_variable(several=False)])


def _state() -> list[Placed]:
    jobs = of_node("slurm:job_node:info")
    owners = f"max by (job, user, account, partition, name) ({of_cluster('slurm:job:info')})"
    return [
        stats(
            "Slurm's state",
            "The state in which Slurm has this node, with the reason that was given.",
            "none",
            query(of_node("slurm:node_state:info"), "{{state}} {{reason}}"),
            names=True,
        ),
        stats(
            "Up for",
            "Time since the last boot.",
            "s",
            query(f"time() - max({of_node('node_boot_time_seconds')})"),
            decimals=0,
        ),
        stats(
            "GPUs",
            "GPUs that jobs have been given, and all of this node.",
            "none",
            query(f"sum({of_node('slurm:node_gpus:allocated')})", "allocated"),
            query(f"sum({of_node('slurm:node_gpus:total')})", "total"),
        ),
        stats(
            "CPUs",
            "CPUs that jobs have been given, and all that Slurm knows of this node.",
            "none",
            query(f"sum({of_node('slurm:node_cpus:allocated')})", "allocated"),
            query(f"sum({of_node('slurm:node_cpus:total')})", "total"),
        ),
        stats(
            "Clock off by",
            "How far the clock is from its source. Munge refuses messages that are some minutes off.",
            "s",
            query(f"abs(max({of_node('node_timex_offset_seconds')}))"),
            steps=CLOCK,
        ),
        stats(
            "Last verdict",
            "The worst verdict of this node over the stages of the last validation in which it took part.",
            "none",
            query(f"max({of_node('busbar_node_verdict')})"),
            words=VERDICTS,
            link=board_link("validation", node="${node}"),
        ),
        tabled(
            "Jobs on this node",
            "Jobs that run here now, whose they are, and in which partition.",
            [f"max by (job) ({jobs}) * on (job) group_right () {owners}"],
            {
                "job": Column("Job", link=board_link("job", job="${__value.raw}"), width=100),
                "user": Column("User"),
                "account": Column("Account"),
                "partition": Column("Partition"),
                "name": Column("Name"),
            },
            sort="job",
            width=24,
            height=6,
        ),
    ]


def _cpu() -> list[Placed]:
    seconds = of_node("node_cpu_seconds_total", 'mode!="idle"')
    cores = f"count(count by (cpu) ({of_node('node_cpu_seconds_total', equal('mode', 'idle'))}))"
    total, available = of_node("node_memory_MemTotal_bytes"), of_node("node_memory_MemAvailable_bytes")
    return [
        graph(
            "CPU by mode",
            "Share of all CPUs in each mode. Much iowait is a slow file system, much system often the network's.",
            "percentunit",
            query(f"sum by (mode) ({rate(seconds)}) / on () group_left () {cores}", "{{mode}}"),
            stacked=True,
            high=1,
        ),
        graph(
            "Load",
            "Processes that run or wait to, beside the number of CPUs.",
            "none",
            query(of_node("node_load1"), "1 minute"),
            query(of_node("node_load15"), "15 minutes"),
            query(cores, "CPUs"),
            dashed=("/^CPUs$/",),
        ),
        graph(
            "Memory",
            "Memory that processes hold, caches, and all that there is.",
            "bytes",
            query(f"{total} - {available}", "used"),
            query(f"{of_node('node_memory_Cached_bytes')} + {of_node('node_memory_Buffers_bytes')}", "cache"),
            query(total, "total"),
            dashed=("/^total$/",),
        ),
        graph(
            "Memory given to jobs",
            "Memory that jobs asked for, beside what Slurm may give. What is used is in the panel beside it.",
            "bytes",
            query(of_node("slurm:node_memory_allocated:bytes"), "allocated"),
            query(of_node("slurm:node_memory:bytes"), "total"),
            dashed=("/^total$/",),
        ),
    ]


def _pressure() -> list[Placed]:
    kinds = (
        ("CPU", "node_pressure_cpu_waiting_seconds_total", "at least one process waited for a CPU"),
        ("memory", "node_pressure_memory_waiting_seconds_total", "at least one process waited for memory"),
        ("I/O", "node_pressure_io_waiting_seconds_total", "at least one process waited for a disk or a share"),
    )
    return [
        graph(
            f"Pressure: {name}",
            f"Share of time in which {words} (the kernel's pressure stall information).",
            "percentunit",
            query(rate(of_node(metric)), "waiting"),
            steps=WAITS,
            high=1,
            width=8,
            height=6,
        )
        for name, metric, words in kinds
    ]


def _disk() -> list[Placed]:
    size, free = of_node("node_filesystem_size_bytes", FILESYSTEMS), of_node("node_filesystem_avail_bytes", FILESYSTEMS)
    received, sent = of_node("node_network_receive_bytes_total", ETHERNET), "node_network_transmit_bytes_total"
    return [
        graph(
            "File systems",
            "How full each file system is.",
            "percentunit",
            query(f"max by (mountpoint) (1 - {free} / {size})", "{{mountpoint}}"),
            steps=FULL,
            high=1,
        ),
        graph(
            "Disks: throughput",
            "What is read from and written to each disk.",
            "Bps",
            query(f"sum by (device) ({rate(of_node('node_disk_read_bytes_total'))})", "{{device}} read"),
            query(f"sum by (device) ({rate(of_node('node_disk_written_bytes_total'))})", "{{device}} written"),
        ),
        graph(
            "Disks: busy",
            "Share of time in which a disk had something to do.",
            "percentunit",
            query(f"max by (device) (rate({of_node('node_disk_io_time_seconds_total')}{RATE}))", "{{device}}"),
            high=1,
        ),
        graph(
            "Network",
            "What comes in and goes out over each Ethernet interface.",
            "Bps",
            query(f"sum by (device) ({rate(received)})", "{{device}} in"),
            query(f"sum by (device) ({rate(of_node(sent, ETHERNET))})", "{{device}} out"),
        ),
    ]


def _gpus() -> list[Placed]:
    return [
        graph(
            "GPU utilisation",
            "Share of time in which a kernel ran on each GPU. The dashboard GPU has the rest.",
            "percentunit",
            query(f"max by (gpu) ({of_node('gpu:utilization:ratio')})", "GPU {{gpu}}"),
            high=1,
            width=8,
        ),
        graph(
            "GPU memory",
            "Share of its memory that is in use on each GPU.",
            "percentunit",
            query(
                f"max by (gpu) ({of_node('gpu:memory_used:bytes')})"
                f" / max by (gpu) ({of_node('gpu:memory_total:bytes')})",
                "GPU {{gpu}}",
            ),
            high=1,
            width=8,
        ),
        graph(
            "GPU temperature",
            "Temperature of each GPU.",
            "celsius",
            query(f"max by (gpu) ({of_node('gpu:temperature:celsius')})", "GPU {{gpu}}"),
            steps=((0, "green"), (80, "yellow"), (90, "red")),
            width=8,
        ),
    ]
