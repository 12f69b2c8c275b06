"""Tests of the nodes that passed in earlier reports."""

from __future__ import annotations

from typing import Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import last_results
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised

HARDWARE = {"gpu1": "dgx_h100", "gpu2": "dgx_h100", "gpu3": "dgx_h100", "cpu1": "generic_cpu"}


def _test(nodes: list[str], verdict: str, hardware: str = "dgx_h100", kind: str = "collective") -> dict[str, Any]:
    return {
        "name": "-".join(nodes),
        "stage": "cluster",
        "kind": kind,
        "collective": "all_reduce",
        "nodes": nodes,
        "partners": [],
        "verdict": verdict,
        "hardware": hardware,
    }


def _report(tests: list[dict[str, Any]], blamed: str = "", kind: str = "node", cluster: str = "one") -> Any:  # noqa: ANN401
    culprits = [{"kind": kind, "nodes": [blamed], "reason": "slow", "tests": []}] if blamed else []
    return normalised({"schema": 1, "cluster": cluster, "tests": tests, "culprits": culprits, "verdict": "PASS"})


def test_newest_report_with_a_verdict_decides_whether_a_node_is_good() -> None:
    first = _report([_test(["gpu1", "gpu2"], "PASS")])
    second = _report([_test(["gpu2", "gpu3"], "FAIL")], blamed="gpu3")
    assert last_results([first], HARDWARE, "one") == {"gpu1": True, "gpu2": True}
    # gpu2 was in a failed test and in no passed one: it is not a culprit, but no longer counts as good.
    assert last_results([first, second], HARDWARE, "one") == {"gpu1": True, "gpu2": False, "gpu3": False}
    healed = _report([_test(["gpu2", "gpu3"], "PASS")])
    assert last_results([first, second, healed], HARDWARE, "one") == {"gpu1": True, "gpu2": True, "gpu3": True}


def test_a_bad_rail_blames_its_node_and_a_link_no_node() -> None:
    tests = [_test(["gpu1", "gpu2", "gpu3"], "FAIL"), _test(["gpu1", "gpu2"], "PASS")]
    assert last_results([_report(tests, blamed="gpu1", kind="rail")], HARDWARE, "one")["gpu1"] is False
    assert last_results([_report(tests, blamed="gpu1", kind="link")], HARDWARE, "one")["gpu1"] is True


def test_other_hardware_other_clusters_and_checks_are_ignored() -> None:
    assert last_results([_report([_test(["gpu1"], "PASS", hardware="dgx_a100")])], HARDWARE, "one") == {}
    assert last_results([_report([_test(["gpu1"], "PASS")], cluster="two")], HARDWARE, "one") == {}
    assert last_results([_report([_test(["gpu1"], "PASS", kind="p2p")])], HARDWARE, "one") == {}
    assert last_results([_report([_test(["gpu1"], "INCONCLUSIVE")])], HARDWARE, "one") == {}
