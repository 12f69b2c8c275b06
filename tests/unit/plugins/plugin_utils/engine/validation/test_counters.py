"""Tests of the error counters of ports during a job."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import port_findings


def _said(*lines: str, asked: tuple[str, ...] = ("gpu1", "gpu2")) -> str:
    told = [*(f"before {node} - read 1" for node in asked), *lines, *(f"after {node} - read 1" for node in asked)]
    return "\n".join(f"# busbar counter: {line}" for line in told)


def test_increased_error_counters_name_the_port() -> None:
    text = _said(
        "before gpu1 mlx5_0/1 symbol_error 7",
        "after gpu1 mlx5_0/1 symbol_error 1007",
        "after gpu1 mlx5_0/1 link_downed 1",
        "before gpu2 mlx5_0/1 symbol_error 50",
        "after gpu2 mlx5_0/1 symbol_error 50",
    )
    expected = (
        "cable, transceiver or switch port at mlx5_0/1 of gpu1: link_downed +1, symbol_error +1000 during the test"
    )
    assert port_findings(text, slow=False) == [expected]
    assert port_findings(text, slow=True) == [expected]


def test_congestion_counters_are_reported_only_for_a_slow_test() -> None:
    text = _said("after gpu2 eth1 rx_prio3_pause 90", "after gpu1 eth1 rx_prio3_pause 5")
    assert port_findings(text, slow=False) == []
    assert port_findings(text, slow=True) == ["congestion or packet loss: rx_prio3_pause increased on gpu[1-2]"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        _said("before gpu1 mlx5_0/1 symbol_error 9"),
        _said("before gpu1 mlx5_0/1 symbol_error 9", "after gpu1 mlx5_0/1 symbol_error 2"),
        # Without a value from before the job, the counter covers the time since boot.
        _said("after gpu3 mlx5_0/1 symbol_error 9000"),
        _said("after gpu1 mlx5_0/1 symbol_error many", "after gpu1 mlx5_0/1 symbol_error -5"),
    ],
)
def test_unchanged_counter_is_not_a_finding(text: str | None) -> None:
    assert port_findings(text, slow=True) == []


def test_many_ports_are_summarised() -> None:
    nodes = tuple(f"gpu{number}" for number in range(1, 31))
    text = _said(*(f"after {node} mlx5_0/1 symbol_error 5" for node in nodes), asked=nodes)
    found = port_findings(text, slow=False)
    assert len(found) == 9
    assert found[-1] == "errors on 22 more ports"
