"""Tests of all program stages: damaged values do not break the page, and all values are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation import stage_registry
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.program_stage import (
    ProgramStage,
)
from report_samples import EVIL
from stage_samples import stage_pages
from training_samples import trained

if TYPE_CHECKING:
    from pathlib import Path

STAGES = {stage.name: stage for stage in stage_registry.STAGES if isinstance(stage, ProgramStage)}
LINE = [3, [1], ["x", 2], [1, None], [2, 3]]
DAMAGED: dict[str, Any] = {
    "none": None,
    "number": 3,
    "empty": {},
    "rows are a number": {"rows": 3, "nodes": 3, "busbw": 4},
    "rows of all types": {
        key: [
            3,
            None,
            {},
            {"node": EVIL, "label": EVIL, "rail": EVIL, "device": None, "n": "x", "gbps": "x", "losses": LINE},
        ]
        for key in ("rows", "nodes")
    },
    "curves": {"rows": [], "nodes": [], "busbw": LINE, "watched": [[1] * 4, [None] * 4]},
}


def test_all_program_stages_are_covered() -> None:
    assert set(STAGES) == {"storage", "gemm", "rdma_pairs", "hpl", "training", "soak"}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("name", STAGES)
def test_damaged_values_are_shown_as_far_as_possible(tmp_path: Path, name: str, value: object) -> None:
    report = trained()
    report["tests"] = [{**report["tests"][0], "name": name, "stage": name, "kind": name, "training": None, name: value}]
    own = normalised(report)["tests"][0]["own"]
    assert (own is None) == (not isinstance(value, dict))
    section, _metrics = stage_pages(tmp_path, report)
    assert "<h2>" in section
    assert EVIL not in section
