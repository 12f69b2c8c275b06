"""Tests of parsing dcgmi's output; output that cannot be parsed never makes a node faulty."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.dcgm_health import dcgm_incidents, dcgm_problems

REPLAYS = "Detected 12 PCIe replays per minute for GPU 0, which exceeds the warning threshold 8."


def answer(overall: str, **gpus: dict[str, tuple[str, str]]) -> str:
    """Return dcgmi's output in the format of DcgmiOutputJson."""
    body: dict[str, Any] = {"Overall Health": {"value": overall}}
    for name, systems in gpus.items():
        errors = {system: {"overflow": [text], "value": state} for system, (state, text) in systems.items()}
        entity = {"children": {"Errors": {"children": errors}}, "value": overall}
        body.setdefault("GPU", {"children": {}})["children"][name.removeprefix("gpu")] = entity
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


WARNED = answer(
    "Warning",
    gpu0={"PCIe system": ("Warning", REPLAYS)},
    gpu1={"Thermal system": ("Warning", "Thermal violations."), "NVLINK system": ("Warning", "CRC errors.")},
)
FAILED = answer("Failure", gpu3={"Memory system": ("Failure", "A pending retired page\n has been detected.")})


def test_healthy_node_has_no_incidents() -> None:
    assert dcgm_incidents(answer("Healthy")) == []


@pytest.mark.parametrize(
    ("text", "level", "problems"),
    [
        (WARNED, "never", []),
        (WARNED, "failure", []),
        (
            WARNED,
            "links",
            [f"DCGM: GPU 0 PCIe system warning: {REPLAYS}", "DCGM: GPU 1 NVLINK system warning: CRC errors."],
        ),
        (FAILED, "never", []),
        (FAILED, "failure", ["DCGM: GPU 3 Memory system failure: A pending retired page has been detected."]),
        (FAILED, "links", ["DCGM: GPU 3 Memory system failure: A pending retired page has been detected."]),
    ],
)
def test_problems_depend_on_the_level(text: str, level: str, problems: list[str]) -> None:
    assert dcgm_problems(dcgm_incidents(text), level) == problems


def test_all_warnings_count_at_level_warning() -> None:
    assert len(dcgm_problems(dcgm_incidents(WARNED), "warning")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: unable to establish a connection to the specified host: localhost",
        "{}",
        '{"body": []}',
        (
            '{"body": {"Overall Health": {"value": "Warning"}, "GPU": {"children": {"0": {"children": {"Errors": '
            '{"children": {"PCIe system": "Warning"}}}}}}}}'
        ),
        '{"body": {"Overall Health": {"value": "Internal error"}}}',
        '{"body": {"Overall Health": {"value": "Failure"}}}',
        '{"body": {"Overall Health": {"value": "Warning"}, "GPU": {"value": "x"}}}',
        WARNED.replace('"Warning", "overflow"', '"Odd", "overflow"').replace(
            '"value": "Warning"}}}', '"value": "Odd"}}}'
        ),
        WARNED[:-3],
    ],
)
def test_unparsable_output_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"dcgmi|Expecting|Unterminated"):
        dcgm_incidents(text)
