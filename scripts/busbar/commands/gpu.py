"""`busbar gpu`: parses nvidia-smi output and prints the GPUs of a host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_faults import gpu_faults, gpu_label
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

from busbar.errors import UsageError
from busbar.output import print_columns, print_json
from busbar.text_file import read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_MOST_BYTES = 1 << 26
_HOW_TO_CREATE = "create the file with: nvidia-smi -q -x > FILE"
# The output of nvidia-smi without options.
_SUMMARY = re.compile(r"^\W*NVIDIA-SMI[: ]+\d.*\bDriver Version", re.MULTILINE)
_SUMMARY_ROW = re.compile(r"^\|\s+(\d+)\s+[A-Z]")
_SUMMARY_ERROR = re.compile(r"\bERR!|Unable to determine the device handle|Unknown Error")


def read_query(name: str) -> dict[str, Any]:
    """Return the parsed output of `nvidia-smi` from a file, or from standard input for `-`.

    Raises:
        UsageError: the file cannot be read, or is not output of `nvidia-smi`.
    """
    where = "standard input" if name == "-" else name
    text = read_text(name, _MOST_BYTES)
    if not text.strip():
        message = f"{where} is empty"
        raise UsageError(message)
    data = parse_query(text)
    if data["form"] is None and _SUMMARY.search(text):
        problem = "is the summary table of nvidia-smi, which omits most values"
        message = f"{where} {problem}; {_HOW_TO_CREATE}{_failing_gpus(text)}"
        raise UsageError(message)
    if data["form"] is None and not data["errors"]:
        message = f"{where} contains no output of nvidia-smi -q; {_HOW_TO_CREATE}"
        raise UsageError(message)
    return data


def _failing_gpus(text: str) -> str:
    """Describe the GPUs of a summary table that report errors."""
    index, found = "", {}
    for line in text.splitlines():
        row = _SUMMARY_ROW.match(line)
        index = row[1] if row else index
        if index and _SUMMARY_ERROR.search(line):
            found[index] = True
    return f". GPU {', '.join(found)} reports errors" if found else ""


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _current_and_maximum(current: object, maximum: object) -> str:
    return f"{_cell(current)}/{_cell(maximum)}"


_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("gpu", lambda gpu: _cell(gpu["index"])),
    ("bus id", lambda gpu: _cell(gpu["pci_bus_id"])),
    ("model", lambda gpu: _cell(gpu["product_name"])),
    ("serial", lambda gpu: _cell(gpu["serial"])),
    ("MiB", lambda gpu: _cell(gpu["memory_total_mib"])),
    ("PCIe gen", lambda gpu: _current_and_maximum(gpu["pcie_gen_current"], gpu["pcie_gen_max"])),
    ("lanes", lambda gpu: _current_and_maximum(gpu["pcie_width_current"], gpu["pcie_width_max"])),
    ("MIG", lambda gpu: f"{gpu['mig_mode']}, {gpu['mig_devices']}" if gpu["mig_devices"] else _cell(gpu["mig_mode"])),
    ("ECC", lambda gpu: _cell(gpu["ecc_mode"])),
    ("uncorrected", lambda gpu: _cell(gpu["ecc_volatile_uncorrected_total"])),
    ("W", lambda gpu: _cell(gpu["power_limit_w"])),
)


def _print_table(data: dict[str, Any]) -> None:
    """Print the GPUs as a table."""
    versions = f"driver {_cell(data['driver_version'])}, CUDA {_cell(data['cuda_version'])}"
    print(printable(f"{versions}, {data['gpu_count']} GPU(s)"))
    rows = [[title for title, _ in _COLUMNS], *([show(gpu) for _, show in _COLUMNS] for gpu in data["gpus"])]
    if data["gpus"]:
        print_columns(rows)
    for error in data["errors"]:
        print(f"  {printable(error)}")
    for gpu in data["gpus"]:
        for problem, remedy in gpu_faults(gpu):
            words = f"GPU {gpu['index']} ({gpu_label(gpu)}): {problem}. Remedy: {remedy}"
            print(printable(f"  {words.replace('INDEX', str(gpu['index']))}"))


def _parse(args: argparse.Namespace) -> int:
    data = read_query(args.file)
    if args.format == "json":
        print_json(data)
    else:
        _print_table(data)
    return 0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    top = subparsers.add_parser("gpu", help="parse the output of nvidia-smi")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    parse = commands.add_parser("parse", help="print the output of nvidia-smi -q -x as JSON or as a table")
    parse.add_argument(
        "file",
        metavar="FILE",
        help="output of nvidia-smi -q -x, nvidia-smi -q or nvidia-smi --query-gpu; - for standard input",
    )
    parse.add_argument("--format", choices=("json", "table"), default="table")
    parse.set_defaults(run=_parse)
