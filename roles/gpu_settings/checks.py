"""Checks the options of the role gpu_settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.common.problems import make_problem
from ...plugins.module_utils.nvidia.gpu_settings import merge_settings, settings_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem


def check_inventory(_: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid settings of GPUs, of hardware and hosts together."""
    problems = []
    remedy = "correct gpu.settings of the hardware, or gpu_settings_values of the host"
    for name in cluster["compute"]:
        own = cluster["hostvars"][name]
        gpu = (cluster["catalogue"].get(own.get("hardware") or "") or {}).get("gpu") or {}
        wrong = settings_form(merge_settings(gpu.get("settings"), own.get("gpu_settings_values")))
        problems += [make_problem([name], "gpu_settings_values", each, remedy) for each in wrong]
    return problems


INVENTORY = {"gpu_settings_values, hardware, hardware_profiles_extra": check_inventory}
