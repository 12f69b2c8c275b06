"""Tests of the output and refusals of `busbar report`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbar.cli import main
from report_samples import of_pairs, small, with_node_changes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Return a site's folder with an inventory and six reports: the last one is a FAIL, and one is invalid."""
    (tmp_path / "inventory").mkdir()
    place = tmp_path / "reports"
    for report in [*(small(f"2026-11-{day}T08:00:00Z") for day in range(10, 15)), small(slow=0.5)]:
        folder = place / report["started"].replace("-", "").replace(":", "")
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    (place / "20261001T000000Z").mkdir()
    (place / "20261001T000000Z" / "report.json").write_bytes(b"\xff\x00 no report")
    (place / "latest").symlink_to("20261120T080000Z")
    (place / "notes").mkdir()
    return place


def test_list(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "list", "-i", str(reports.parent / "inventory")]) == 0
    said = capsys.readouterr().out
    assert said.count("20261120T080000Z") == 1
    assert "cannot be read" in said
    assert main(["report", "list", "--reports", str(reports), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["reports"]
    assert [entry["verdict"] for entry in found] == [None, *["PASS"] * 5, "FAIL"]
    assert found[-1]["tests"] == {"PASS": 4, "FAIL": 1, "INCONCLUSIVE": 0}


@pytest.mark.parametrize("name", [[], ["latest"], ["20261120T080000Z"], ["2026-11-20"], ["PATH"], ["PATH/report.json"]])
def test_show(reports: Path, capsys: pytest.CaptureFixture[str], name: list[str]) -> None:
    named = [text.replace("PATH", str(reports / "latest")) for text in name]
    assert main(["report", "show", *named, "--reports", str(reports)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("FAIL  alpha: node-gpu3: too slow")
    assert "culprit  gpu3: " in said
    assert "drift  node-gpu3: 237 GB/s is 50.0 % below its median of 5 earlier passes, 474" in said


def test_show_lists_node_changes_and_uncertain_results(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = small("2026-11-21T08:00:00Z") | with_node_changes()
    (reports / "20261121").mkdir()
    (reports / "20261121" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert main(["report", "show", "20261121", "--reports", str(reports)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[2:10] == [
        "unresolved  gpu[1-2]: comes and goes",
        "suspected  gpu4: 3 % below others, repeat with 40 repeats",
        "not drained  gpu3: the controller did not answer",
        "resumed  gpu1: was drained: busbar: new (root, 2026-11-20T10:00:00)",
        "not resumed  gpu5: Access denied",
        "stays drained  gpu2: fan is loud (bob, 2026-11-19T10:00:00)",
        "stays drained  gpu6: disk",
        "left over  the reservation busbar-validation could not be deleted",
    ]


def test_show_as_data(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "show", "--reports", str(reports), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["report"]["schema"] == 1
    assert [item["name"] for item in found["drift"] if item["flags"]] == ["node-gpu3"]
    assert found["culprits"][0]["nodes"] == ["gpu3"]


def test_compare(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["report", "compare", "20261114", "latest", "--reports", str(reports)]
    assert main([*arguments, "--format", "json"]) == 1
    found = {test["name"]: test for test in json.loads(capsys.readouterr().out)["tests"]}
    assert found["node-gpu3"]["change"] == pytest.approx(-0.5)
    assert main(arguments) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "node-gpu3" in line)
    assert line.split()[1:] == ["gpu3", "PASS", ">", "FAIL", "474", "237", "-50.0", "%", "slower"]


@pytest.mark.parametrize(
    ("speed", "verdict", "code"),
    [
        (1.0, "PASS", 0),
        (0.97, "PASS", 0),
        (1.5, "PASS", 0),
        (0.9, "PASS", 1),
        (1.0, "FAIL", 1),
        (1.0, "INCONCLUSIVE", 0),
    ],
)
def test_compare_exits_with_1_if_a_test_is_worse(reports: Path, speed: float, verdict: str, code: int) -> None:
    report = json.loads((reports / "20261114T080000Z" / "report.json").read_text())
    test = report["tests"][0]
    test |= {"measured_busbw": test["measured_busbw"] * speed, "verdict": verdict}
    (reports / "20261115").mkdir()
    (reports / "20261115" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert main(["report", "compare", "20261114", "20261115", "--reports", str(reports)]) == code


def test_compare_reports_different_nodes(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((reports / "20261114T080000Z" / "report.json").read_text())
    (whole,) = [test for test in report["tests"] if test["name"] == "cluster"]
    before = list(whole["nodes"])
    whole["nodes"] = [*before, "gpu9"]
    report |= {"started": "2026-11-15T00:00:00Z", "nodes": [*report["nodes"], "gpu9"], "tests": [whole]}
    (reports / "20261115").mkdir()
    (reports / "20261115" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    arguments = ["report", "compare", "20261114", "20261115", "--reports", str(reports)]
    assert main(arguments) == 3
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "No test ran on the same nodes in both reports, so no values are compared."
    assert said[1] == "The reports cover different nodes: only B has gpu9."
    assert said[2].startswith("not compared: cluster ran on gpu[1-4] in A (PASS, ")
    assert " GB/s) and on gpu[1-4,9] in B (PASS, " in said[2]
    assert not [line for line in said if line.startswith("tests only") and "cluster" in line]
    assert main([*arguments, "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [(item["name"], item["nodes"]) for item in found["other_nodes"]] == [("cluster", [before, whole["nodes"]])]


@pytest.mark.parametrize(("verdict", "code"), [("PASS", 0), ("INCONCLUSIVE", 0), ("FAIL", 1)])
@pytest.mark.parametrize("only_in_second", [True, False])
def test_compare_counts_a_failure_of_a_test_that_only_b_has(
    reports: Path, verdict: str, code: int, *, only_in_second: bool
) -> None:
    report = json.loads((reports / "20261114T080000Z" / "report.json").read_text())
    (whole,) = [test for test in report["tests"] if test["name"] == "cluster"]
    if only_in_second:
        report["tests"].append({**whole, "name": "pair-gpu1-gpu2", "stage": "pair", "verdict": verdict})
    else:
        whole |= {"nodes": [*whole["nodes"], "gpu9"], "verdict": verdict}
    (reports / "20261115").mkdir()
    (reports / "20261115" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert main(["report", "compare", "20261114", "20261115", "--reports", str(reports)]) == code


def of_another_cluster(place: Path, share: float) -> None:
    """Write a report of node1 to node4 with a share of the bandwidth in `small`."""
    text = json.dumps(small()).replace("gpu", "node").replace("alpha", "beta")
    report = json.loads(text)
    for test in report["tests"]:
        test["measured_busbw"] *= share
        test["verdict"] = "PASS" if share >= 1 else "FAIL"
    place.mkdir()
    (place / "report.json").write_text(json.dumps(report), encoding="utf-8")


@pytest.mark.parametrize(("share", "code", "flag"), [(1.0, 0, ""), (0.8, 1, "slower"), (1.2, 0, "faster")])
def test_compare_shows_two_clusters_side_by_side(
    reports: Path, share: float, code: int, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_another_cluster(reports / "20261116", share)
    arguments = ["report", "compare", "20261114", "20261116", "--reports", str(reports)]
    assert main([*arguments, "--format", "json"]) == code
    found = {(each["test"], each["nodes"]): each for each in json.loads(capsys.readouterr().out)["side_by_side"]}
    assert set(found) == {("node all_reduce", 1), ("cluster all_reduce", 4)}
    one = found["node all_reduce", 1]
    assert [side["tests"] for side in one["sides"]] == [4, 4]
    assert one["change"] == pytest.approx(share - 1)
    assert {each["flag"] for each in found.values()} == {flag}
    assert main(arguments) == code
    said = capsys.readouterr().out
    assert "A  alpha, " in said
    assert "B  beta, " in said
    assert "nodes node[1-4]" in said
    assert "4 PASS" in next(line for line in said.splitlines() if "node all_reduce" in line)


def test_clusters_without_a_common_test_are_not_compared(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (reports / "20261116").mkdir()
    text = json.dumps(of_pairs(2)).replace("gpu", "node")
    (reports / "20261116/report.json").write_text(text, encoding="utf-8")
    assert main(["report", "compare", "20261114", "20261116", "--reports", str(reports)]) == 3
    assert "not tested" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["latest", "busbar-report-20261120T080000Z", "20261120", "2026-11-20"])
def test_without_a_site_reports_of_the_working_directory_are_used(
    reports: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = reports.parent / "work"
    place.mkdir()
    for folder in reports.glob("202611*"):
        folder.rename(place / f"busbar-report-{folder.name}")
    monkeypatch.chdir(place)
    monkeypatch.setattr("busbar.commands.report_selection.default_inventory", lambda: place / "inventory")
    assert main(["report", "show", name]) == 0
    assert "busbar-report-20261120T080000Z" in capsys.readouterr().out
    assert main(["report", "list"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if "busbar-report-" in line]) == 6


@pytest.mark.parametrize("chosen", [["-i", "SITE/inventory"], ["--reports", "SITE/reports"]])
@pytest.mark.parametrize("name", [[], ["latest"], ["20261114T080000Z"]])
def test_name_is_a_report_of_the_selected_site_in_any_directory(
    reports: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: list[str],
    chosen: list[str],
) -> None:
    other = reports.parent / "other" / "reports"
    of_another_cluster(other.parent, 1.0)
    for folder in ("20261114T080000Z", "latest"):
        (other / folder).mkdir(parents=True)
        (other / folder / "report.json").write_bytes((other.parent / "report.json").read_bytes())
    monkeypatch.chdir(other)
    words = [word.replace("SITE", str(reports.parent)) for word in chosen]
    assert main(["report", "show", *name, *words]) == 0
    assert f"report: {reports}/2026111" in capsys.readouterr().out.replace("20261120", "20261114")


@pytest.mark.parametrize("name", ["./vendor", "vendor", "vendor/report.json"])
def test_report_outside_the_selected_site_can_be_shown(
    reports: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    of_another_cluster(reports.parent / "vendor", 1.0)
    monkeypatch.chdir(reports.parent)
    assert main(["report", "show", name, "-i", str(reports.parent / "inventory")]) == 0
    assert f"report: {reports.parent}/vendor" in capsys.readouterr().out


def test_copied_report_of_another_cluster_is_not_the_latest(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_another_cluster(reports / "vendor", 1.0)
    assert main(["report", "show", "--reports", str(reports)]) == 0
    assert f"report: {reports}/20261120T080000Z" in capsys.readouterr().out
    assert main(["report", "compare", "vendor", "latest", "--reports", str(reports)]) == 1
    assert "A  beta, " in capsys.readouterr().out


def test_render(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "render", "--reports", str(reports)]) == 0
    folder = reports / "20261120T080000Z"
    assert sorted(path.name for path in folder.iterdir()) == ["busbar.prom", "junit.xml", "report.html", "report.json"]
    assert capsys.readouterr().out.splitlines()[-1] == str(folder / "report.html")
    assert (folder / "report.html").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nope", "--reports", "PLACE"], "0 reports match 'nope'"),
        (["show", "", "--reports", "PLACE"], "match ''"),
        (["show", "202611", "--reports", "PLACE"], "6 reports match '202611'"),
        (["show", "20261001", "--reports", "PLACE"], "report.json: is not JSON"),
        (["render", "20261001", "--reports", "PLACE"], "report.json: is not JSON"),
        (["show", "--reports", "PLACE/notes"], "no report in"),
        (["list", "--reports", "PLACE/none"], "none: folder not found"),
        (["list", "-i", "PLACE/none"], "none not found"),
        (["list", "-i", "PLACE/notes"], "no reports yet"),
        (["list", "-i", "PLACE", "--sandbox"], "not a combination"),
        (["list", "--name", "no-such"], "'no-such' does not exist"),
        (["list", "-i", "PLACE", "--name", "x"], "not a combination"),
        (["list", "--sandbox", "--name", "no-such"], "'no-such' does not exist"),
        (["compare", "20261114", "nope", "--reports", "PLACE"], "0 reports match"),
    ],
)
def test_bad_input_gives_a_one_line_error_and_exit_code_2(
    reports: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["report", *(text.replace("PLACE", str(reports)) for text in arguments)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert words in said.err


def test_control_characters_of_a_report_are_removed(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = {**small("2026-12-01T00:00:00Z"), "cluster": "a\x1b]0;b\x07[bold]", "reason": "\x1b[2J"}
    (reports / "20261201").mkdir()
    (reports / "20261201" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    for command in ("list", "show"):
        assert main(["report", command, "--reports", str(reports)]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "[bold]" in said
