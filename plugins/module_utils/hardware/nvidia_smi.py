"""Parse `nvidia-smi -q -x`, its text form `-q`, and `--query-gpu` tables.

Element names and counter layouts are those of drivers 384 to 610 (DTD 10 to 13).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from .nvidia_smi_tree import CSV_COLUMNS, LOG, Node, read_csv, read_text, read_xml

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KNOWN_FAILURES", "LOST", "bare_gpu", "failure_lines", "parse_query"]

LOST = "GPU is lost"
# Placeholders for missing values. Any other text is a value, including errors such as "Insufficient Permissions".
_ABSENT = {"", "N/A", "[N/A]", "Not Found", "[Not Found]", LOST, f"[{LOST}]"}
_ODD = re.compile(
    r"^\[?(GPU is lost|GPU requires reset|Insufficient Permissions|Unknown Error|ERR!|Not Supported|Invalid.*)\]?$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\s*(-?\d{1,18}(?:\.\d{1,6})?)\s*(?:[xX]|%|[KMGT]i?B|W|C|us|MHz|bank\(s\))?\s*$")
_NOTE = re.compile(r"\s*\[.*$")
KNOWN_FAILURES = (
    *("NVIDIA-SMI has failed", "Failed to initialize NVML", "No devices were found", "NVML library version"),
    *("Unable to determine the device handle", "couldn't communicate with the NVIDIA driver", "GPU is lost"),
    "fallen off the bus",
)
_FAILURES = re.compile("|".join(KNOWN_FAILURES), re.IGNORECASE)
# Unrelated tables may have a column `name`, too.
_LEAST_COLUMNS = 2
_MOST_ERRORS = 20

_TEXTS = {
    "product_name": ("product_name",),
    "brand": ("product_brand",),
    "architecture": ("product_architecture",),
    "uuid": ("uuid", "gpu_uuid"),
    "serial": ("serial", "serial_number"),
    "vbios_version": ("vbios_version",),
    "persistence_mode": ("persistence_mode",),
    "mig_mode": ("mig_mode/current_mig", "mig_mode/current"),
    "mig_mode_pending": ("mig_mode/pending_mig", "mig_mode/pending"),
    "ecc_mode": ("ecc_mode/current_ecc", "ecc_mode/current"),
    "ecc_mode_pending": ("ecc_mode/pending_ecc", "ecc_mode/pending"),
    "performance_state": ("performance_state",),
    "recovery_action": ("gpu_recovery_action",),
    "virtualization_mode": ("gpu_virtualization_mode/virtualization_mode",),
}
_PCIE = ("pci/pci_gpu_link_info/pcie_gen/", "pci/gpu_link_info/pcie_generation/")
_WIDTH = ("pci/pci_gpu_link_info/link_widths/", "pci/gpu_link_info/link_width/")
_POWER = ("gpu_power_readings", "power_readings")
_WHOLE = {
    "minor_number": ("minor_number",),
    "memory_total_mib": ("fb_memory_usage/total",),
    "memory_used_mib": ("fb_memory_usage/used",),
    "pcie_gen_max": (f"{_PCIE[0]}max_link_gen", f"{_PCIE[1]}max"),
    "pcie_gen_current": (f"{_PCIE[0]}current_link_gen", f"{_PCIE[1]}current"),
    "pcie_gen_device_max": (f"{_PCIE[0]}max_device_link_gen", f"{_PCIE[1]}device_max"),
    "pcie_width_max": (f"{_WIDTH[0]}max_link_width", f"{_WIDTH[1]}max"),
    "pcie_width_current": (f"{_WIDTH[0]}current_link_width", f"{_WIDTH[1]}current"),
    "pcie_replays": ("pci/replay_counter", "pci/replays_since_reset"),
    "temperature_c": ("temperature/gpu_temp", "temperature/gpu_current_temp"),
}
# Newer drivers nest the GPU's limits one level deeper, and report separate limits for memory and module.
_LIMITS = {
    "power_limit_w": ("current_power_limit", "power_limit"),
    "power_default_w": ("default_power_limit",),
    "power_max_w": ("max_power_limit",),
}
# Newer layouts have separate counters by memory and error type; the oldest layout has one total.
_UNCORRECTED = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "sram_uncorrectable_sec_ded",
    "dram_uncorrectable",
)
_CORRECTED = ("sram_correctable", "dram_correctable")
_RETIRED = {
    "single_bit": ("multiple_single_bit_retirement/retired_count", "single_bit_ecc"),
    "double_bit": ("double_bit_retirement/retired_count", "double_bit_ecc"),
}
_REMAPPED = {
    "correctable": ("remapped_row_corr", "correctable_error"),
    "uncorrectable": ("remapped_row_unc", "uncorrectable_error"),
}
_FABRIC_HEALTH = (
    "summary",
    "bandwidth",
    "route_recovery_in_progress",
    "route_unhealthy",
    "access_timeout_recovery",
    "incorrect_configuration",
)
_REASON = re.compile(r"^clocks_(?:event|throttle)_reasons?_(?:counters_)?")
_REASON_NAMES = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}


def parse_query(text: str) -> dict[str, Any]:
    """Return the output of `nvidia-smi` as plain data; missing values are None. Never raises.

    Args:
        text: output of `nvidia-smi -q -x`, of `nvidia-smi -q`, or of `nvidia-smi --query-gpu=… --format=csv`.

    Returns:
        `form` (`xml`, `text`, `csv`, or None for other text), `driver_version`, `cuda_version`, `attached_gpus` (the
        driver's count), `gpu_count` (GPUs in the list), `gpus`, and `errors`, a list of lines. A GPU has the keys of
        gpu_facts(); memory in MiB, power in W, widths in lanes, counters as numbers.
    """
    form = _form(text)
    problems: list[str] = []
    tree = Node(LOG)
    if form == "xml":
        tree, problems = read_xml(text)
    elif form == "text":
        tree = read_text(text)
    elif form == "csv":
        tree = read_csv(text)
    gpus = [_gpu_facts(node, index) for index, node in enumerate(n for n in tree.children if n.tag == "gpu")]
    attached = _whole(tree, ("attached_gpus",))
    errors = [*failure_lines(text), *problems[:_MOST_ERRORS]]
    if attached is not None and attached != len(gpus):
        errors.append(f"{attached} GPUs are attached, {len(gpus)} are listed")
    errors += [f"GPU {gpu['index']} ({gpu['pci_bus_id']}): {LOST}" for gpu in gpus if gpu["lost"]]
    return {
        "form": form,
        "driver_version": _version(tree, ("driver_version", "kmd_version")),
        "cuda_version": _version(tree, ("cuda_version", "cuda_umd_version")),
        "attached_gpus": attached,
        "gpu_count": len(gpus),
        "gpus": gpus,
        "errors": errors,
    }


def bare_gpu(index: int, **known: object) -> dict[str, Any]:
    """Return a GPU with only the `known` values, in the form of parse_query()."""
    return {**_gpu_facts(Node("gpu"), index), **known}


def failure_lines(text: str) -> list[str]:
    """Return the error lines in the output of nvidia-smi."""
    plain = (line.strip() for line in text.splitlines() if "<" not in line and " : " not in line)
    return [line[:300] for line in plain if _FAILURES.search(line)][:_MOST_ERRORS]


def _form(text: str) -> str | None:
    """Return `xml`, `text` or `csv`, or None for other text."""
    if f"<{LOG}" in text or re.search(r"<gpu\s+id\s*=", text):
        return "xml"
    if "NVSMI LOG" in text or re.search(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:", text, re.MULTILINE):
        return "text"
    first = text.lstrip("\ufeff \r\n\t").partition("\n")[0]
    columns = {name.strip().partition(" [")[0] for name in first.split(",")}
    return "csv" if len(columns & CSV_COLUMNS) >= _LEAST_COLUMNS else None


def _text(node: Node, paths: Sequence[str]) -> str | None:
    """Return the first text at one of the paths, or None."""
    for path in paths:
        found = node.find(path)
        if found is not None and found.text not in _ABSENT:
            return found.text
    return None


def _number(node: Node, paths: Sequence[str]) -> float | None:
    """Return the first number at one of the paths, without its unit, or None."""
    for path in paths:
        match = _NUMBER.match(_text(node, (path,)) or "")
        if match and math.isfinite(float(match.group(1))):
            return float(match.group(1))
    return None


def _whole(node: Node, paths: Sequence[str]) -> int | None:
    number = _number(node, paths)
    return None if number is None else int(number)


def _flag(node: Node, paths: Sequence[str]) -> bool | None:
    """Return the boolean at one of the paths; None for values other than yes and no."""
    word = (_text(node, paths) or "").lower()
    return {"yes": True, "true": True, "active": True, "no": False, "false": False, "not active": False}.get(word)


def _version(node: Node, paths: Sequence[str]) -> str | None:
    """Return a version without the note that newer drivers append: '610.57.04 [Deprecated; …]'."""
    return _NOTE.sub("", _text(node, paths) or "") or None


def _gpu_facts(node: Node, index: int) -> dict[str, Any]:
    """Return the values of one GPU.

    `index` counts from 0 in list order; `minor_number` is the N of /dev/nvidiaN. `odd_texts` are error messages in
    place of values. `nvlink` is filled from `nvidia-smi nvlink -s`, because this output does not contain it.
    """
    odd = sorted({text for text in node.texts() if _ODD.match(text)})
    return {
        "index": index,
        "pci_bus_id": _text(node, ("pci/pci_bus_id", "pci/bus_id")) or node.identity or None,
        **{key: _text(node, paths) for key, paths in _TEXTS.items()},
        **{key: _whole(node, paths) for key, paths in _WHOLE.items()},
        **{key: _power_limit(node, tags) for key, tags in _LIMITS.items()},
        **_mig(node),
        **_ecc(node),
        "retired_pages": _retired_pages(node),
        "remapped_rows": _remapped_rows(node),
        "throttle_reasons": _reasons(node),
        "throttle_us": _throttle_times(node),
        "fabric": _fabric(node),
        "nvlink": None,
        "lost": any(LOST.lower() in text.lower() for text in odd),
        "odd_texts": odd,
    }


def _power_limit(node: Node, tags: Sequence[str]) -> float | None:
    """Return a power limit of the GPU in W, not of its memory or module."""
    for holder in filter(None, map(node.child, _POWER)):
        for tag in tags:
            found = holder.below(tag)
            if found is not None:
                return _number(Node("", children=[found]), (tag,))
    return None


def _mig(node: Node) -> dict[str, Any]:
    """Return the number of MIG devices, and the instances and memory of each."""
    holder = node.child("mig_devices") or node
    devices = [each for each in holder.children if each.tag == "mig_device"]
    memory = ("fb_memory_usage/total", "shared_fb_memory_usage/total")
    return {
        "mig_devices": len(devices),
        "mig": [
            {
                "index": _whole(each, ("index",)),
                "gpu_instance": _whole(each, ("gpu_instance_id",)),
                "compute_instance": _whole(each, ("compute_instance_id",)),
                "memory_total_mib": _whole(each, memory),
            }
            for each in devices
        ],
    }


def _ecc(node: Node) -> dict[str, Any]:
    """Return the sums of the error counters in any of the three layouts; None for missing counters."""
    totals: dict[str, Any] = {}
    for span in ("volatile", "aggregate"):
        counters = node.find(f"ecc_errors/{span}") or Node("")
        for kind, names, old in (("uncorrected", _UNCORRECTED, "double_bit"), ("corrected", _CORRECTED, "single_bit")):
            given = [count for count in (_whole(counters, (name,)) for name in names) if count is not None]
            totals[f"ecc_{span}_{kind}_total"] = sum(given) if given else _whole(counters, (f"{old}/total",))
    threshold = ("ecc_errors/aggregate/sram_threshold_exceeded",)
    return {**totals, "ecc_sram_threshold_exceeded": _flag(node, threshold)}


def _retired_pages(node: Node) -> dict[str, Any] | None:
    """Return the retired pages of GPUs before Ampere, or None."""
    pages = node.child("retired_pages") or Node("")
    pending = ("pending_retirement", "pending_blacklist", "pending_page_blacklist", "pending")
    found = {
        **{key: _whole(pages, paths) for key, paths in _RETIRED.items()},
        "pending": _flag(pages, pending),
    }
    return found if any(value is not None for value in found.values()) else None


def _remapped_rows(node: Node) -> dict[str, Any] | None:
    """Return the remapped rows of GPUs since Ampere, or None."""
    rows = node.child("remapped_rows") or Node("")
    found = {
        **{key: _whole(rows, paths) for key, paths in _REMAPPED.items()},
        "pending": _flag(rows, ("remapped_row_pending", "pending")),
        "failure": _flag(rows, ("remapped_row_failure", "remapping_failure_occurred")),
    }
    return found if any(value is not None for value in found.values()) else None


def _reasons(node: Node) -> list[str] | None:
    """Return the current throttling reasons, by XML name without prefix, or None."""
    holder = node.child("clocks_event_reasons") or node.child("clocks_throttle_reasons")
    if holder is None or holder.text in _ABSENT - {""}:
        return None
    waiting, active = list(holder.children), set()
    while waiting:
        each = waiting.pop()
        waiting += each.children
        if each.text == "Active":
            active.add(_reason_name(each.tag))
    return sorted(active)


def _reason_name(tag: str) -> str:
    name = _REASON.sub("", tag)
    return _REASON_NAMES.get(name, name)


def _throttle_times(node: Node) -> dict[str, int] | None:
    """Return the microseconds of throttling for each reason, or None."""
    holder = node.child("clocks_event_reasons_counters") or Node("")
    times = {_time_name(each.tag): _whole(holder, (each.tag,)) for each in holder.children}
    return {name: time for name, time in times.items() if time is not None} or None


def _time_name(tag: str) -> str:
    """Return the XML name of a counter; the text form spells it out, such as "HW Power Braking"."""
    name = _reason_name(tag)
    for text, short in (("thermal", "therm"), ("capping", "cap"), ("braking", "brake")):
        name = name.replace(text, short)
    return name


def _fabric(node: Node) -> dict[str, Any] | None:
    """Return the state of the GPU in its NVLink fabric; None for a GPU without fabric."""
    fabric = node.child("fabric") or Node("")
    found: dict[str, Any] = {key: _text(fabric, (key,)) for key in ("state", "status")}
    found |= {key: _text(fabric, (f"health/{key}",)) for key in _FABRIC_HEALTH}
    found |= {"clique_id": _whole(fabric, ("cliqueId", "cliqueid"))}
    found |= {"cluster_uuid": _text(fabric, ("clusterUuid", "clusteruuid"))}
    return found if found["state"] or found["status"] or found["summary"] else None
