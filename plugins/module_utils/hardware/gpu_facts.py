"""Read the GPUs of the local host from nvidia-smi, /proc/driver/nvidia and the PCI bus, with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from .gpu_facts_merge import join_sources, link_generation
from .nvidia_smi import failure_lines
from .pci_devices import classify

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["find_smi", "listed", "pci_devices", "query_smi", "read", "read_gpus", "run_limited"]

MOST_OUTPUT = 1 << 25
# Exit status of nvidia-smi for an unknown option.
INVALID_ARGUMENT = 2
NETWORK = "02"
NO_WIDTH = (0, 63, 255)
# slurmd sets no PATH, and some drivers install to other directories.
PATHS = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/nvidia/bin",
    "/usr/lib/wsl/lib",
)


def find_smi() -> str | None:
    """Return the path of nvidia-smi, or None."""
    return shutil.which("nvidia-smi", path=os.pathsep.join(filter(None, [os.environ.get("PATH"), *PATHS])))


def read(path: Path) -> str:
    """Return the text of a small file, or '' if it cannot be read."""
    try:
        with path.open(errors="replace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""


def listed(path: Path) -> list[Path]:
    """Return the sorted entries of a directory; empty if it does not exist."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def run_limited(command: list[str], timeout_s: float) -> tuple[int | None, str]:
    """Return exit status and output of a program; the status is None after a timeout.

    A program that hangs in the driver cannot be killed and would keep a pipe open, so the output goes to a file and
    this function does not wait for the killed program.
    """
    with tempfile.TemporaryFile() as output:
        environment = {**os.environ, "LC_ALL": "C"}
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return status, output.read(MOST_OUTPUT).decode(errors="replace")


def query_smi(program: str | None, timeout_s: float, *, links: bool = True) -> tuple[dict[str, Any], list[str]]:
    """Return the output of nvidia-smi, optionally with NVLinks, and the error messages."""
    if not program:
        return {"state": "absent"}, []
    try:
        status, query = run_limited([program, "-q", "-x"], timeout_s)
    except OSError as exc:
        return {"state": "failed"}, [f"cannot run nvidia-smi: {exc.strerror}"]
    if status is None:
        return {"state": "hung"}, [f"nvidia-smi did not answer in {timeout_s:g} s"]
    if status == INVALID_ARGUMENT:
        return {"state": "unusable"}, ["nvidia-smi does not support the options -q -x"]
    if status and "<gpu " not in query:
        first = next((line.strip() for line in query.splitlines() if line.strip()), f"exited with status {status}")
        return {"state": "failed", "query": query}, [] if failure_lines(query) else [f"nvidia-smi: {first[:300]}"]
    status, nvlink = run_limited([program, "nvlink", "-s"], timeout_s) if links else (None, "")
    return {"state": "ok", "query": query, "nvlink": "" if status is None else nvlink}, []


def pci_devices(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the GPUs and network cards on the PCI bus."""
    found: dict[str, list[dict[str, Any]]] = {"gpu": [], "nic": []}
    for folder in listed(root / "sys/bus/pci/devices"):
        number = read(folder / "class")[2:6]
        kind = "nic" if number.startswith(NETWORK) else classify(read(folder / "vendor")[2:], number)
        if kind in found and not (folder / "physfn").exists():
            widths = (read(folder / f"{which}_link_width") for which in ("current", "max"))
            width, width_max = (int(text) if text.isdigit() and int(text) not in NO_WIDTH else None for text in widths)
            found[kind].append(
                {
                    "address": folder.name,
                    "width": width,
                    "width_max": width_max,
                    "generation": link_generation(read(folder / "current_link_speed")),
                    "generation_max": link_generation(read(folder / "max_link_speed")),
                }
            )
    return found


def read_gpus(
    root: Path, bus: list[dict[str, Any]], program: str | None, timeout_s: float, *, links: bool = True
) -> dict[str, Any]:
    """Return the result of join_sources() for this host, including the errors of nvidia-smi.

    Args:
        root: directory that contains /proc.
        bus: GPUs of pci_devices().
        program: path of nvidia-smi.
        timeout_s: time limit of each call.
        links: whether to query NVLinks, which needs another call.
    """
    smi, errors = query_smi(program, timeout_s, links=links)
    proc = root / "proc/driver/nvidia"
    files = {folder.name: read(folder / "information") for folder in listed(proc / "gpus")}
    found = join_sources(smi, {"version": read(proc / "version"), "gpus": files}, bus)
    return {**found, "errors": [*errors, *found["errors"]]}
