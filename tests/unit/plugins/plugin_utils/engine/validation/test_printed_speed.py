"""Tests of the bandwidth of slow networks, which is computed from the time because that has more digits."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.start_searches import repeats_at


def _run(busbw: float, time: float | None, program: str | None = "all_reduce_perf", size: int = 1 << 20) -> Any:  # noqa: ANN401
    return {
        "program": program,
        "ranks": 4,
        "rows": [
            {"size": 0, "out_of_place": {"busbw": 0.0, "time_us": 1.0}},
            {"size": 4096, "out_of_place": {"busbw": 0.1, "time_us": 50.0}},
            {"size": size, "out_of_place": {"busbw": busbw, "time_us": time}},
            {"size": size, "out_of_place": None},
        ],
    }


@pytest.mark.parametrize(
    ("run", "busbw", "rounding"),
    [
        # Links of 20 Mb/s and 17.4 Mb/s are both printed as 0.00.
        (_run(0.0, 629146.0), 0.0025, 0.0005),
        (_run(0.0, 723156.0), 0.002175, 0.0005),
        (_run(0.02, 78643.0), 0.02, 0.0005),
        # Fast enough that two decimals suffice.
        (_run(480.17, 3275.8), 480.17, 0.0000104),
        # "1.2e+07" has two digits.
        (_run(0.02, 1.2e7), 0.02, 0.25),
        (_run(0.0, 1.2e7), 0.0, 1.0),
        (_run(0.02, None), 0.02, 0.25),
        (_run(0.02, 78643.0, program="hypercube_perf"), 0.02, 0.25),
        (_run(0.02, 78643.0, program=None), 0.02, 0.25),
    ],
)
def test_most_precise_value_is_used(run: dict[str, Any], busbw: float, rounding: float) -> None:
    ((measured, off),) = repeats_at(run, 1 << 20)
    assert measured == pytest.approx(busbw, rel=0.001)
    assert off == pytest.approx(rounding, rel=0.01)
    assert list(repeats_at(run, 8)) == []
