"""Tests of GPU settings: format, unsupported values, differences, and the unit that sets them at boot."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings import (
    boot_lines,
    merge_settings,
    settings_errors,
    settings_plan,
)
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings_parse import settings_found
from busbar.sandbox.recording import gpu_recording

RECORDING = gpu_recording("gpu1", 2)
ALL = {
    "persistence": True,
    "compute_mode": "exclusive_process",
    "ecc": False,
    "power_limit_w": 300,
    "graphics_clocks_mhz": [210, 1050],
    "memory_clocks_mhz": 1215,
    "application_clocks_mhz": {"graphics": 705, "memory": 1215},
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ALL, ""),
        ({}, ""),
        ({key: "default" for key in ALL if key.endswith(("_w", "_mhz"))}, ""),
        ([], "must be a dictionary"),
        ({"fan": 3}, "fan: unknown setting"),
        ({"persistence": 1}, "persistence: must be true or false"),
        ({"ecc": "on"}, "ecc: must be true or false"),
        ({"compute_mode": "shared"}, "compute_mode: must be one of default, exclusive_process, prohibited"),
        ({"power_limit_w": 0}, "power_limit_w: must be watts per GPU, or default"),
        ({"graphics_clocks_mhz": [1410, 210]}, "graphics_clocks_mhz: must be MHz, a list of lowest and highest"),
        ({"memory_clocks_mhz": "fast"}, "memory_clocks_mhz: must be MHz"),
        ({"application_clocks_mhz": {"graphics": 705}}, "application_clocks_mhz: must have graphics and memory"),
        ({"vboost": 0}, ""),
        ({"vboost": "default"}, ""),
        ({"vboost": -1}, "vboost: must be a step of the slider"),
        ({"vboost": True}, "vboost: must be a step of the slider"),
        ({"persistence": False, "vboost": 1}, "vboost: would be reset when no program uses the GPU"),
        ({"persistence": False, "power_limit_w": 300}, "power_limit_w: would be reset when no program uses the GPU"),
    ],
)
def test_malformed_settings_are_refused(settings: object, words: str) -> None:
    found = settings_errors(settings)
    assert words in "; ".join(found)
    assert bool(found) == bool(words)


def test_older_driver_and_gpu_without_features_are_parsed() -> None:
    old = RECORDING.replace("gpu_power_readings", "power_readings").replace("current_power_limit", "power_limit")
    assert settings_found(old)[0]["power"]["now"] == 400
    (bare,) = settings_found(
        "<nvidia_smi_log><gpu id='0'><persistence_mode>N/A</persistence_mode></gpu></nvidia_smi_log>"
    )
    faults, steps = settings_plan(ALL, [bare], [])
    assert {fault.key for fault in faults} == set(ALL)
    assert all(fault.problem == "not supported by the GPU" for fault in faults)
    assert all("-l" in step.words[0] for step in steps)


def test_equal_gpus_share_one_planned_step() -> None:
    faults, steps = settings_plan(ALL, settings_found(RECORDING), [])
    assert faults == []
    assert [(step.gpus, step.words, step.before, step.after) for step in steps] == [
        ((0, 1), ("-c", "EXCLUSIVE_PROCESS"), "default", "exclusive_process"),
        ((0, 1), ("-e", "0"), "on", "off"),
        ((0, 1), ("-pl", "300"), "400 W", "300 W"),
        ((0, 1), ("-lgc", "210,1050"), "not locked", "210,1050"),
        ((0, 1), ("-lmc", "1215,1215"), "not locked", "1215,1215"),
        ((0, 1), ("-ac", "1215,705"), "graphics 1410, memory 1215 MHz", "graphics 705, memory 1215 MHz"),
    ]


def test_only_differences_are_planned_and_default_resets() -> None:
    changed = RECORDING.replace(">400.00 W</current_power_limit>", ">250.00 W</current_power_limit>", 1)
    gpus = settings_found(changed)
    _, steps = settings_plan({"power_limit_w": "default", "graphics_clocks_mhz": "default"}, gpus, ["-lgc 210,705"])
    assert [(step.gpus, step.words) for step in steps] == [((0,), ("-pl", "400")), ((0, 1), ("-rgc",))]
    assert settings_plan({"power_limit_w": 250}, gpus[:1], []) == ([], [])
    assert settings_plan({"graphics_clocks_mhz": [210, 705]}, gpus, ["-lgc 210,705"]) == ([], [])
    assert settings_plan({}, gpus, []) == ([], [])


@pytest.mark.parametrize(
    ("key", "value", "problem", "remedy"),
    [
        ("power_limit_w", 900, "900 W: the GPU supports 100 to 500 W", "choose 100 to 500"),
        ("power_limit_w", 99.5, "99.5 W: the GPU supports 100 to 500 W", "choose 100 to 500"),
        ("graphics_clocks_mhz", [210, 2000], "2000 MHz: the GPU supports 210 to 1410 MHz", "choose 210 to 1410"),
        ("memory_clocks_mhz", 100, "100 MHz: the GPU supports 405 to 1215 MHz", "choose 405 to 1215"),
        (
            "application_clocks_mhz",
            {"graphics": 1000, "memory": 1215},
            "the GPU does not support a graphics clock of 1000 MHz",
            "the nearest is 1050",
        ),
        (
            "application_clocks_mhz",
            {"graphics": 705, "memory": 900},
            "the GPU does not support a memory clock of 900 MHz",
            "choose one of 405, 1215",
        ),
    ],
)
def test_unsupported_value_is_reported(key: str, value: Any, problem: str, remedy: str) -> None:  # noqa: ANN401
    (fault,), _ = settings_plan({key: value}, settings_found(RECORDING), [])
    assert fault == ((0, 1), key, problem, remedy)


def test_boot_unit_restores_volatile_settings() -> None:
    assert boot_lines(ALL) == [
        "-pm 1",
        "-c EXCLUSIVE_PROCESS",
        "-pl 300",
        "-lgc 210,1050",
        "-lmc 1215,1215",
        "-ac 1215,705",
    ]
    assert boot_lines({"ecc": True, "persistence": False, "power_limit_w": "default"}) == []


def test_host_settings_override_each_key_and_null_removes_it() -> None:
    merged = merge_settings({"ecc": True, "power_limit_w": 300}, {"power_limit_w": None, "persistence": True})
    assert merged == {"ecc": True, "persistence": True}


SLIDERS = """\
+-------------------------------------------------------------------------+
| Boost Slider                                                            |
| GPU    Slider           Max Value              Current Value            |
|=========================================================================|
|   0    vboost                  4                      0                 |
|   1    vboost                  4                      1                 |
+-------------------------------------------------------------------------+
"""


def test_vboost_slider_is_read_and_set() -> None:
    gpus = settings_found(RECORDING, SLIDERS)
    assert [gpu["vboost"] for gpu in gpus] == [{"most": 4, "now": 0}, {"most": 4, "now": 1}]
    faults, steps = settings_plan({"vboost": 1}, gpus, [])
    assert faults == []
    assert [(step.gpus, step.words, step.before, step.after) for step in steps] == [
        ((0,), ("boost-slider", "--vboost", "1"), "0", "1")
    ]
    _, steps = settings_plan({"vboost": "default"}, gpus, [])
    assert [(step.gpus, step.words) for step in steps] == [((1,), ("boost-slider", "--vboost", "0"))]
    assert boot_lines({"vboost": 1}) == ["boost-slider --vboost 1"]
    assert boot_lines({"vboost": "default"}) == []


def test_missing_slider_or_too_large_value_is_refused() -> None:
    (fault,), _ = settings_plan({"vboost": 5}, settings_found(RECORDING, SLIDERS), [])
    assert (fault.problem, fault.remedy) == ("5: the GPU supports 0 to 4", "choose 0 to 4")
    (fault,), steps = settings_plan({"vboost": 1}, settings_found(RECORDING), [])
    assert fault.problem == "not supported by the GPU"
    assert steps == []
    assert settings_plan({"vboost": "default"}, settings_found(RECORDING), []) == ([], [])
