"""Storage: file systems and when they will be full, NFS on both sides, scratch, disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, node_variable, query_variable
from .panels import Column, bars, board_link, graph, query, stats, tabled
from .promql import FILESYSTEMS, of_node, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

FULL = ((0, "green"), (0.85, "yellow"), (0.95, "red"))
SOON = ((0, "red"), (86400, "yellow"), (7 * 86400, "green"))
FINE_OR_BAD = ((0, "green"), (1, "red"))
MOUNT = 'mountpoint=~"$mountpoint"'
SCRATCH = 'mountpoint=~"/(scratch|raid|local).*"'
YEAR_S = 365 * 86400


def make() -> Dashboard:
    """Return the dashboard."""
    mounts = query_variable(
        "mountpoint",
        "Mounted at",
        f'label_values(node_filesystem_size_bytes{{cluster=~"$cluster",node=~"$node",{FILESYSTEMS}}}, mountpoint)',
    )
    rows = [
        ("File systems", _filesystems()),
        ("Scratch", _scratch()),
        ("NFS: clients", _clients()),
        ("NFS: server", _server()),
        ("Disks", _disks()),
    ]
    description = "File systems with a forecast, scratch, NFS clients and servers, disks."
    return board("storage", "Storage", description, rows, [node_variable(), mounts], since="now-24h")


def _filesystems() -> list[Placed]:
    by = "max by (node, mountpoint, fstype)"
    size, free = (of_node(f"node_filesystem_{name}_bytes", FILESYSTEMS, MOUNT) for name in ("size", "avail"))
    files, left = (of_node(f"node_filesystem_{name}", FILESYSTEMS, MOUNT) for name in ("files", "files_free"))
    broken = of_node("node_filesystem_device_error", MOUNT)
    # Shrinking by less than a byte per second is not shrinking: a year is shown as the longest.
    lasts = f"clamp_max({free} / clamp_min(-deriv({free}[6h]), 1), {YEAR_S})"
    return [
        stats(
            "Fullest",
            "How full the fullest of the chosen file systems is.",
            "percentunit",
            query(f"max(1 - {free} / {size})"),
            steps=FULL,
            decimals=0,
            width=6,
        ),
        stats(
            "First to be full",
            "When the first of them will be full if it goes on as in the last 6 hours (at most a year).",
            "s",
            query(f"min({lasts})"),
            steps=SOON,
            decimals=0,
            width=6,
        ),
        stats(
            "Read-only",
            "File systems that are mounted read-only: after an error a kernel does that by itself.",
            "none",
            query(f"sum({of_node('node_filesystem_readonly', FILESYSTEMS, MOUNT)})"),
            steps=FINE_OR_BAD,
            width=6,
        ),
        stats(
            "Without an answer",
            "File systems that could not be asked for their size: a stale handle, or a server that is away.",
            "none",
            query(f"sum({broken})"),
            steps=FINE_OR_BAD,
            width=6,
        ),
        graph(
            "Forecast: full in",
            "How long each file system lasts if it goes on as in the last 6 hours; a year is the longest shown.",
            "s",
            query(f"min by (node, mountpoint) ({lasts})", "{{node}} {{mountpoint}}"),
            steps=SOON,
            width=8,
        ),
        tabled(
            "File systems",
            "Every chosen file system with its size, what is free, and its inodes.",
            [
                f"{by} (1 - {free} / {size})",
                f"{by} ({free})",
                f"{by} ({size})",
                f"{by} (1 - {left} / ({files} > 0))",
            ],
            {
                "node": Column("Node", link=board_link("node", node="${__value.raw}"), width=120),
                "mountpoint": Column("Mounted at"),
                "fstype": Column("Type", width=90),
                "Value #A": Column("Full", unit="percentunit", steps=FULL),
                "Value #B": Column("Free", unit="bytes"),
                "Value #C": Column("Size", unit="bytes"),
                "Value #D": Column("Inodes used", unit="percentunit", steps=FULL),
            },
            sort="Value #A",
            width=16,
        ),
        graph(
            "Full",
            "How full each file system was.",
            "percentunit",
            query(f"max by (node, mountpoint) (1 - {free} / {size})", "{{node}} {{mountpoint}}"),
            high=1,
            steps=FULL,
            width=24,
        ),
    ]


def _scratch() -> list[Placed]:
    size, free = (of_node(f"node_filesystem_{name}_bytes", SCRATCH) for name in ("size", "avail"))
    return [
        bars(
            "Scratch in use",
            "How full the local scratch of each node is (below /scratch, /raid or /local).",
            "percentunit",
            query(f"max by (node, mountpoint) (1 - {free} / {size})", "{{node}} {{mountpoint}}"),
            steps=FULL,
            high=1,
        ),
        graph(
            "Free on scratch",
            "What is left on the local scratch of each node.",
            "bytes",
            query(f"max by (node, mountpoint) ({free})", "{{node}} {{mountpoint}}"),
        ),
    ]


def _clients() -> list[Placed]:
    asked = rate(of_node("node_nfs_requests_total"))
    return [
        graph(
            "Operations by node",
            "What each node asks of NFS servers.",
            "ops",
            query(f"sum by (node) ({asked})", "{{node}}"),
            width=8,
        ),
        graph(
            "Operations by kind",
            "What the chosen nodes ask. Many GETATTR or LOOKUP are small files; a data loader shows as READ.",
            "ops",
            query(f"topk(10, sum by (method) ({asked}))", "{{method}}"),
            stacked=True,
            width=8,
        ),
        graph(
            "Asked again",
            "Calls that had to be repeated because no answer came: the network or an overloaded server.",
            "ops",
            query(f"sum by (node) ({rate(of_node('node_nfs_rpc_retransmissions_total'))})", "{{node}}"),
            width=8,
        ),
    ]


def _server() -> list[Placed]:
    disk = "node_nfsd_disk_bytes"
    return [
        graph(
            "Operations by kind",
            "What the NFS servers are asked.",
            "ops",
            query(f"topk(10, sum by (node, method) ({rate(of_node('node_nfsd_requests_total'))}))", "{{method}}"),
            stacked=True,
            width=8,
        ),
        graph(
            "Throughput",
            "What the NFS servers read and write for their clients.",
            "Bps",
            query(f"sum by (node) ({rate(of_node(f'{disk}_read_total'))})", "{{node}} read"),
            query(f"sum by (node) ({rate(of_node(f'{disk}_written_total'))})", "{{node}} written"),
            width=8,
        ),
        graph(
            "Threads",
            "Threads of the NFS server.",
            "none",
            query(f"sum by (node) ({of_node('node_nfsd_server_threads')})", "{{node}}"),
            width=8,
        ),
    ]


def _disks() -> list[Placed]:
    name = "{{node}} {{device}}"

    def by_disk(metric: str) -> str:
        return f"sum by (node, device) ({rate(of_node(metric))})"

    return [
        graph("Read", "What each disk reads.", "Bps", query(by_disk("node_disk_read_bytes_total"), name), width=8),
        graph(
            "Written",
            "What is written to each disk.",
            "Bps",
            query(by_disk("node_disk_written_bytes_total"), name),
            width=8,
        ),
        graph(
            "Busy",
            "Share of time in which a disk had something to do.",
            "percentunit",
            query(by_disk("node_disk_io_time_seconds_total"), name),
            high=1,
            width=8,
        ),
    ]
