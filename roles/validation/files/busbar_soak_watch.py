# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Records clocks, power, temperature, throttle reasons and errors of a node under load until standard input closes.

The program prints lines busbar-soak {json}: one at the start, one per interval, and one at the end. Without GPUs it
reports the CPUs. It reads the kernel log with journalctl (as this user, or with the group systemd-journal) or dmesg;
kernel_log is true if one of them returned lines.

Exit codes: 0 success, 2 invalid input.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi_links import parse_link_errors
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi_tree import read_xml

MARK = "busbar-soak "
TIMEOUT_S = 60
MOST_LINES = 200
LONGEST = 300
HURTS = re.compile(r"NVRM: Xid\b|nvidia-nvswitch\d+: SXid\b")
COUNTERS = ("ecc_volatile_uncorrected_total", "ecc_volatile_corrected_total", "pcie_replays")
SYS = Path(os.environ.get("BUSBAR_SYS", "/sys"))
PROC = Path(os.environ.get("BUSBAR_PROC", "/proc"))


def run(*command: str) -> str:
    """Return the output of a command, or an empty string if it is missing, fails to start or hangs."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def number(text: object) -> float | None:
    """Return the number at the start of a string such as "650.12 W"."""
    found = re.match(r"\s*(-?\d{1,9}(?:\.\d{1,6})?)\b", str(text))
    return float(found[1]) if found else None


def gpus(*, whole: bool) -> list[dict]:
    """Return the GPUs of this node; `whole` adds their counters, for the first and last line."""
    text = run("nvidia-smi", "-q", "-x")
    nodes = [node for node in read_xml(text)[0].children if node.tag == "gpu"]
    links = parse_link_errors(run("nvidia-smi", "nvlink", "-e")) if whole else {}
    found = []
    for node, facts in zip(nodes, parse_query(text)["gpus"]):
        draws = [
            node.find(f"{holder}/{name}")
            for holder in ("gpu_power_readings", "power_readings")
            for name in ("instant_power_draw", "power_draw", "average_power_draw")
        ]
        power = [number(draw.text) for draw in draws if draw is not None]
        clock = node.find("clocks/sm_clock")
        device = {
            "device": facts["index"],
            "clock_mhz": None if clock is None else number(clock.text),
            "power_w": next((watts for watts in power if watts is not None), None),
            "temperature_c": facts["temperature_c"],
            "reasons": facts["throttle_reasons"],
            "lost": facts["lost"],
        }
        if whole:
            device |= {key: facts[key] for key in COUNTERS}
            device |= {
                "uuid": facts["uuid"],
                "address": facts["pci_bus_id"],
                "remapped_rows": facts["remapped_rows"],
                "throttle_us": facts["throttle_us"],
                "nvlink_errors": links.get(facts["index"]),
            }
        found.append(device)
    return found


def cpus(*, whole: bool) -> list[dict]:
    """Return the CPUs of this node as one device."""
    clocks, heat = [], []
    with suppress(OSError):
        text = (PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace")
        clocks = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)$", text, re.MULTILINE)]
    for file in SYS.glob("class/thermal/thermal_zone*/temp"):
        with suppress(OSError, ValueError):
            heat.append(int(file.read_text()) / 1000)
    device = {
        "device": 0,
        "clock_mhz": sum(clocks) / len(clocks) if clocks else None,
        "power_w": None,
        "temperature_c": max(heat, default=None),
        "reasons": [],
        "lost": False,
    }
    if whole:
        device |= {"ecc_volatile_uncorrected_total": edac("ue_count"), "ecc_volatile_corrected_total": edac("ce_count")}
    return [device]


def edac(name: str) -> int | None:
    """Return the sum of a counter over all memory controllers, or None without an EDAC driver."""
    found = []
    for file in SYS.glob(f"devices/system/edac/mc/mc*/{name}"):
        with suppress(OSError, ValueError):
            found.append(int(file.read_text()))
    return sum(found) if found else None


def kernel_log() -> list[str] | None:
    """Return the kernel log lines about GPU errors, or None if this user cannot read the log."""
    ways = (
        ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso"),
        ("sg", "systemd-journal", "-c", "journalctl -k -b --no-pager -o short-iso"),
        ("dmesg",),
    )
    for way in ways:
        lines = [line for line in run(*way).splitlines() if line and not line.startswith("-- ")]
        if lines:
            return [line for line in lines if HURTS.search(line)]
    return None


class Watch:
    """Records samples of this node."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read the log before the load starts."""
        self.devices = gpus if options.device == "gpu" else cpus
        self.gpu = options.device == "gpu"
        self.before = self.log()

    def log(self) -> list[str] | None:
        """Return the log lines of the watched devices."""
        return kernel_log() if self.gpu else []

    def report(self, when: str) -> None:
        """Print a line."""
        record = {
            "when": when,
            "node": os.environ.get("SLURMD_NODENAME") or platform.node(),
            "at": round(time.time(), 3),
            "devices": self.devices(whole=when != "sample"),
        }
        if when == "begin":
            record["kernel_log"] = self.before is not None
        if when == "end":
            after = self.log()
            record["kernel_log"] = after is not None
            old = list(self.before or [])
            fresh = [line[:LONGEST] for line in after or [] if line not in old]
            record["faults"] = fresh[:MOST_LINES]
        # Write the line at once, so that the lines of several nodes do not interleave.
        sys.stdout.write(f"{MARK}{json.dumps(record)}\n")
        sys.stdout.flush()


def main() -> None:
    """Print records until standard input closes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", choices=("gpu", "cpu"), required=True, help="type of the watched devices")
    parser.add_argument("--interval", type=float, required=True, help="seconds between two samples")
    options = parser.parse_args()
    if options.interval <= 0:
        parser.error("--interval must be above 0")
    watch = Watch(options)
    watch.report("begin")
    due = time.monotonic() + options.interval
    while True:
        ready = select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]
        if ready and not os.read(sys.stdin.fileno(), 4096):
            break
        if not ready:
            watch.report("sample")
            due += options.interval
    watch.report("end")


if __name__ == "__main__":
    main()
