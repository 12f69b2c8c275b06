"""Tests of the dossier of a node; unknown values are marked as unknown."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.nodes.dossier import (
    dossier,
    node_lines,
    read_records,
    seconds,
    serial_of,
)
from report_samples import small

NOW = seconds("2026-11-21T08:00:00Z")
HEALTHY, SLOW = (("one", small()), ("two", small("2026-11-20T10:00:00Z", slow=0.3)))
REPORTS = [(name, normalised(report)) for name, report in (HEALTHY, SLOW)]
EVENT = {"node": "gpu3", "from": NOW - 7200, "until": None, "state": "DRAIN", "by": "root", "reason": "new memory"}
JOB = {
    "job": "7",
    "name": "x",
    "state": "NODE_FAIL",
    "exit": "0:0",
    "user": "alice",
    "end": NOW - 7000,
    "nodes": "gpu[3-4]",
    "count": 2,
    "failed_nodes": ["gpu3"],
}
STATE = {**dict.fromkeys(("flags", "reason", "by", "version"), ""), "state": "idle", "since": None, "booted": 5}
SLURM: dict[str, Any] = {"nodes": {"gpu3": STATE}, "events": [EVENT], "jobs": [JOB], "problems": {}}
PART = {"kind": "machine", "id": "", "serial": "SN-1", "name": "Maker Box"}
MACHINE = {"parts": [PART], "versions": {"kernel": "6.1"}, "booted": 9, "history": [{"at": 1}], "problems": {}}


def of(node: str = "gpu3", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any argument
    given: dict[str, Any] = {
        "slurm": SLURM,
        "machine": MACHINE,
        "reports": REPORTS,
        "records": [],
        "not_known": {},
        "now": NOW,
    }
    return dossier(node, **(given | changes))


def test_dossier_contains_all_sources() -> None:
    found = of()
    assert [(each["report"], each["of_node"], each["blamed"]) for each in found["validations"]] == [
        *(("one", "PASS", False), ("two", "FAIL", True)),
    ]
    assert found["validations"][0]["tests"][0]["stage"] == "node"
    assert (found["machine"]["serial"], found["machine"]["source"]) == ("SN-1", "the node")
    assert (found["booted"], found["health"], len(found["drains"])) == (9, [{"at": 1}], 1)
    assert found["jobs"][0]["by_node"] is True
    assert found["score"]["points"] == 1 + 2 + 1
    assert found["score"]["not_known"] == []
    assert json.loads(json.dumps(found)) == found


def test_unreachable_node_is_described_from_other_sources() -> None:
    found = of(machine=None, slurm={}, not_known={"gpu3": "no route to host"})
    assert (found["health"], found["drains"], found["jobs"], found["slurm"]) == (None, None, None, None)
    assert found["not_known"] == {"gpu3": "no route to host"}
    assert len(found["validations"]) == 2
    assert "xid_cnt" in found["score"]["not_known"]


def test_failed_slurm_queries_are_named() -> None:
    slurm = SLURM | {"events": None, "jobs": None, "problems": {"events": "slurm_persist_conn_open: refused"}}
    found = of(slurm=slurm)
    assert found["not_known"] == {"Slurm: events": "slurm_persist_conn_open: refused"}
    assert found["score"]["signals"]["out_count"] == {"count": None, "points": 0}


def test_replaced_machine_has_a_clean_score_and_keeps_the_history() -> None:
    record = {"at": NOW - 60, "node": "gpu3", "event": "replaced", "serial_before": "SN-0", "serial_after": "SN-1"}
    found = of(records=[record])
    assert found["score"]["points"] == 0
    assert found["changes"] == [record]
    assert len(found["validations"]) == 2
    # The parts in reports belong to the previous machine.
    assert of(records=[record], machine=None)["machine"] == {"source": "", "serial": "", "parts": []}


def test_lines_of_all_nodes_match_the_dossier() -> None:
    lines = node_lines(["gpu3", "gpu4", "gpu9"], slurm=SLURM, reports=REPORTS, records=[], now=NOW)
    found = {each["node"]: each for each in lines}
    assert found["gpu3"]["score"] == of()["score"]
    assert [found[name]["validation"] and found[name]["validation"]["verdict"] for name in found] == [
        *("FAIL", "PASS", None),
    ]
    assert found["gpu9"]["slurm"] is None
    unknown = node_lines(["gpu3"], slurm={}, reports=[], records=[], now=NOW)
    assert unknown[0]["score"]["not_known"]


def test_serial_identifies_the_machine_or_its_gpus() -> None:
    gpus = [{"kind": "gpu", "id": "GPU-1", "serial": number, "name": "x"} for number in ("9", "8")]
    assert serial_of([*gpus, PART]) == "SN-1"
    assert serial_of(gpus) == "gpu 8, 9"
    assert serial_of([]) == ""


def test_damaged_records_are_counted() -> None:
    good = {"at": 5, "node": "gpu3", "event": "replaced"}
    text = "\n".join([json.dumps(good), "{", '{"at": "x"}', "7", ""])
    assert read_records(text) == ([good], 3)


def test_times() -> None:
    assert seconds("2026-11-20T08:00:00Z") == seconds("2026-11-20T09:00:00+01:00") == seconds("2026-11-20T08:00:00")
    assert seconds("yesterday") == 0
