"""Checks the options of the gpu_settings role."""

from __future__ import annotations

from ...plugins.module_utils.nvidia.gpu_settings import merge_settings, settings_errors
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the invalid GPU settings of hardware profiles and hosts."""
    problems = []
    remedy = "correct gpu.settings of the hardware, or gpu_settings_values of the host"
    for name in cluster["compute"]:
        own = cluster["hostvars"][name]
        gpu = (cluster["catalogue"].get(own.get("hardware") or "") or {}).get("gpu") or {}
        wrong = settings_errors(merge_settings(gpu.get("settings"), own.get("gpu_settings_values")))
        problems += [make_problem([name], "gpu_settings_values", each, remedy) for each in wrong]
    return problems


INVENTORY = {"gpu_settings_values, hardware, hardware_profiles_extra": check_inventory}
