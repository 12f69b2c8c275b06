"""Parse current and supported GPU settings from `nvidia-smi -q -x`."""

from __future__ import annotations

import re
from typing import Any

from ..hardware.nvidia_smi_tree import Node, read_xml

__all__ = ["settings_found"]

_NUMBER = re.compile(r"^\s*(\d{1,9}(?:\.\d{1,6})?)")
_WORDS = {"enabled": True, "on": True, "disabled": False, "off": False}


# Table row: GPU index, slider, highest step, current step.
_SLIDER = re.compile(r"^\s*\|\s*(\d+)\s+vboost\s+(\d+)\s+(\d+)\s*\|", re.MULTILINE)


def settings_found(text: str, sliders: str = "") -> list[dict[str, Any]]:
    """Return the settings of each GPU; unsupported settings are None.

    Args:
        text: output of `nvidia-smi -q -x`.
        sliders: output of `nvidia-smi boost-slider -l`, needed for `vboost`.

    Returns:
        For each GPU ``index``, ``persistence``, ``ecc`` and ``ecc_pending`` (true or false), ``compute_mode`` (in lower
        case), ``power`` (``now``, ``least``, ``most``, ``default``, in W), ``applications`` and
        ``default_applications`` (``graphics``, ``memory``, in MHz), ``supported`` (graphics clocks by memory clock),
        ``vboost`` (``now`` and ``most``, steps of the slider).
    """
    tree, _ = read_xml(text)
    gpus = [node for node in tree.children if node.tag == "gpu"]
    boost = {int(gpu): {"most": int(most), "now": int(now)} for gpu, most, now in _SLIDER.findall(sliders)}
    return [{"index": index, **_settings(gpu), "vboost": boost.get(index)} for index, gpu in enumerate(gpus)]


def _settings(gpu: Node) -> dict[str, Any]:
    power = gpu.child("gpu_power_readings") or gpu.child("power_readings") or Node("")
    mode = _text(gpu, "compute_mode")
    return {
        "persistence": _flag(gpu, "persistence_mode"),
        "ecc": _flag(gpu, "ecc_mode/current_ecc"),
        "ecc_pending": _flag(gpu, "ecc_mode/pending_ecc"),
        "compute_mode": mode.lower() if mode and mode != "N/A" else None,
        "power": {
            # Older drivers use the second name.
            "now": _number(power, "current_power_limit", "power_limit"),
            "least": _number(power, "min_power_limit"),
            "most": _number(power, "max_power_limit"),
            "default": _number(power, "default_power_limit"),
        },
        "applications": _clocks(gpu.child("applications_clocks")),
        "default_applications": _clocks(gpu.child("default_applications_clocks")),
        "supported": _supported(gpu.child("supported_clocks") or Node("")),
    }


def _text(node: Node, path: str) -> str:
    found = node.find(path)
    return found.text if found else ""


def _flag(node: Node, path: str) -> bool | None:
    return _WORDS.get(_text(node, path).lower())


def _number(node: Node, *paths: str) -> float | None:
    for path in paths:
        match = _NUMBER.match(_text(node, path))
        if match:
            return float(match.group(1))
    return None


def _clocks(node: Node | None) -> dict[str, int] | None:
    graphics = _number(node, "graphics_clock") if node else None
    memory = _number(node, "mem_clock") if node else None
    return None if graphics is None or memory is None else {"graphics": int(graphics), "memory": int(memory)}


def _supported(node: Node) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for each in node.children:
        memory = _number(each, "value")
        if each.tag == "supported_mem_clock" and memory is not None:
            texts = (_NUMBER.match(below.text) for below in each.children if below.tag == "supported_graphics_clock")
            found[int(memory)] = sorted(int(float(match.group(1))) for match in texts if match)
    return found
