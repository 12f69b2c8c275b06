"""Tests of `busbar nccl` from arguments to exit code."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import pytest
from busbar.cli import main
from busbar.commands.nccl import register
from busbar.errors import UsageError
from matrix_samples import nvbandwidth_json, nvbandwidth_text, p2p_text

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nccl"
SEED = Path(__file__).parents[5] / "shared/seeds/001_df0eff65af7a84aa.txt"
WHOLE = str(FIXTURES / "all_reduce_2x8.txt")


def run(*args: str) -> int:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    parsed = parser.parse_args(["nccl", *args])
    return int(parsed.run(parsed))


def test_parse_prints_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("parse", WHOLE, "--format", "json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["runs"][0]["outcome"] == "ok"
    assert run("parse", WHOLE) == 0
    assert "16 ranks on 2 node(s)" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.txt"
    path.write_text(Path(WHOLE).read_text(), encoding=encoding)
    run("parse", str(path), "--format", "json")
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("hardware", "nodes", "options", "code", "verdict"),
    [
        ("dgx_h100", "2", [], 1, "FAIL"),
        ("dgx_h100", "2", ["--floor", "340"], 0, "PASS"),
        ("dgx_h100", "4", [], 3, "INCONCLUSIVE"),
        ("abacus", "2", [], 3, "INCONCLUSIVE"),
        ("gb200_nvl72", "2", ["--ranks", "16"], 3, "INCONCLUSIVE"),
        ("gb200_nvl72", "2", ["--ranks", "16", "--domains", "2"], 1, "FAIL"),
        ("gb200_nvl72", "2", ["--ranks", "16", "--domains", "1,1"], 0, "PASS"),
    ],
)
def test_judge(  # noqa: PLR0913, PLR0917 - a table
    hardware: str, nodes: str, options: list[str], code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("judge", WHOLE, "--hardware", hardware, "--nodes", nodes, "--format", "json", *options) == code
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


@pytest.mark.parametrize(
    ("text", "options", "code", "words"),
    [
        (p2p_text(), ["--hardware", "c4140_v100"], 0, "PASS: 4 GPUs, all pairs at 40 GB/s"),
        (p2p_text(changes={("uni", 1, 3): 16.1}), ["--hardware", "c4140_v100"], 1, "16.10*"),
        (p2p_text(changes={("uni", 1, 3): 16.1}), [], 1, "FAIL: matrix.txt: GPU 1 and GPU 3: 16.1 GB/s"),
        (p2p_text(), [], 3, "no hardware profile: no floor"),
        (p2p_text(), ["--floor", "40"], 0, "floor from: set by an option"),
        (p2p_text(), ["--floor", "49"], 1, "the floor: 49"),
        (
            p2p_text(),
            ["--hardware", "abacus"],
            3,
            "unknown hardware 'abacus'. Remedy: set hardware to one of: c4140_v100",
        ),
        (nvbandwidth_text(), ["--hardware", "dgx_h100"], 0, "device_to_device_memcpy_read_ce, GB/s"),
        (nvbandwidth_json(), ["--hardware", "dgx_h100"], 0, "   all     55.20"),
        ("", ["--hardware", "dgx_h100"], 3, "the output contains no results of p2pBandwidthLatencyTest"),
    ],
)
def test_matrix(  # noqa: PLR0913, PLR0917 - a table
    text: str, options: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text(text, encoding="utf-8")
    assert run("matrix", str(path), *options) == code
    assert words in capsys.readouterr().out
    assert run("matrix", str(path), "--format", "json", *options) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}[found["verdict"]] == code


@pytest.mark.parametrize(
    "args",
    [
        ["matrix", "/no/such/file"],
        ["matrix", "/"],
        ["matrix", WHOLE, "--floor", "much"],
        ["parse", "/no/such/file"],
        ["parse", "/"],
        ["judge", "/no/such/file", "--hardware", "dgx_h100", "--nodes", "2"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "0"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "two"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "2", "--floor", "nan"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "2", "--catalogue", WHOLE],
    ],
)
def test_bad_input_gives_a_one_line_error(args: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run(*args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "only white space"),
        (bytes(range(32)) * 8, "is not text"),
        (b"\x7fELF\x02\x01\x01" + bytes(2000), "is not text"),
    ],
)
@pytest.mark.parametrize("command", ["parse", "judge"])
def test_binary_file_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str, command: str) -> None:
    path = tmp_path / "x.out"
    path.write_bytes(content)
    options = ["--hardware", "dgx_h100", "--nodes", "2"] if command == "judge" else []
    with pytest.raises(UsageError) as caught:
        run(command, str(path), *options)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        '{"#wrong": "0", "algBw": 260.95, "busBw": 456.67, "name": "AllReduce", "size": 1073741824, "type": "float"}\n'
        * 4,
        '[\n {"name": "AllReduce"}\n]',
        "[]",
        "{}",
        "[[1, 2]]",
        '\ufeff{"nvbandwidth": {"Version": "v0.8"}}',
        '{"log":"# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\\n","stream":"stdout"}\n' * 2,
        "{\n",
    ],
)
@pytest.mark.parametrize("command", ["parse", "judge"])
def test_json_of_another_program_is_refused(tmp_path: Path, content: str, command: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    options = ["--hardware", "dgx_h100", "--nodes", "2"] if command == "judge" else []
    with pytest.raises(UsageError) as caught:
        run(command, str(path), *options)
    for words in (str(path), "is JSON", "nccl-tests", "-J", "text output"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    "content", ["hello\n", "numCycle,Name,size,type\n0,AllReduce,1073741824,float\n", "<html></html>", p2p_text()]
)
def test_parse_refuses_text_without_output_of_nccl_tests(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match="contains no output of nccl-tests"):
        run("parse", str(path))
    assert run("judge", str(path), "--hardware", "dgx_h100", "--nodes", "2") == 3


def test_parse_shows_the_warnings_of_nccl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.txt"
    path.write_text(
        f"{Path(WHOLE).read_text()}[2026-03-13 22:26:02] gpu2:1:2 [0] x.cc:1 NCCL WARN mlx5_3:1 port error\n"
    )
    assert run("parse", str(path)) == 0
    assert "  NCCL warned: gpu2: mlx5_3:1 port error\n" in capsys.readouterr().out


@pytest.mark.parametrize("label", ["[0] ", "[1,0]<stdout>:", "[pod/x/y] "])
def test_label_that_looks_like_a_list_is_not_json(
    tmp_path: Path, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(label + line for line in Path(WHOLE).read_text().splitlines(keepends=True)))
    assert run("parse", str(path), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcome"] == "ok"


def judged(profiles: Path, hardware: str) -> int:
    return run("judge", WHOLE, "--hardware", hardware, "--nodes", "2", "--format", "json", "--catalogue", str(profiles))


def test_profiles_of_a_site_override_those_of_busbar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.yml"
    path.write_text("hardware_profiles_extra: {dgx_h100: {busbw: {inter_node: {floor_gbs: 7, source: measured}}}}")
    judged(path, "dgx_h100")
    assert json.loads(capsys.readouterr().out)["floor"] == 7
    path.write_text("hardware_profiles_extra: {dgx_h100: {bsbw: {}}}")
    with pytest.raises(UsageError, match=r"hardware dgx_h100: bsbw: unknown key \(did you mean busbw\?\)"):
        judged(path, "dgx_h100")


@pytest.mark.parametrize("content", ["{}", "hardware_profiles: {}", "hardware_profiles_extra: []", "- a", ""])
def test_file_without_profiles_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "site.yml"
    path.write_text(content)
    with pytest.raises(UsageError, match="has no mapping hardware_profiles_extra"):
        judged(path, "dgx_h100")


def test_log_with_a_few_binary_bytes_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.out"
    path.write_bytes(b"\0\0\0\xff\x1b[1m\n" + Path(WHOLE).read_bytes())
    assert run("parse", str(path), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcome"] == "ok"


@pytest.mark.skipif(not SEED.is_file(), reason=f"{SEED} is not here")
@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [([], 3, "INCONCLUSIVE"), (["--allow-unchecked", "--allow-missing-ranks"], 0, "PASS")],
)
def test_verdict_of_the_published_dgx2h_run(
    options: list[str], code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--hardware", "dgx2", "--nodes", "2", "--format", "json"]
    assert run("judge", str(SEED), *asked, *options) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["measured_busbw"], found["at_size"]) == (verdict, 81.53, 8 << 30)
    assert (found["floor"], found["ceiling"]) == (76, 126.0)


def test_control_characters_of_a_node_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "output.txt"
    output.write_text("# nThread 1 nGpus 1\ngpu1: Test NCCL failure common.cu:958 '\x1b[2J\x9b2J\u202egnp'\n")
    for command in (["parse", str(output)], ["judge", str(output), "--hardware", "dgx_h100", "--nodes", "1"]):
        main(["nccl", *command])
        said = capsys.readouterr().out
        assert "common.cu:958" in said
        assert not [char for char in said if not char.isprintable() and char != "\n"]


def test_contradictory_row_is_quoted_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(WHOLE).read_text().split("\n")
    (row,) = [number for number, line in enumerate(lines) if line.startswith("  8589934592 ")]
    lines[row] = lines[row].replace("46017.51", "4601.751", 1)
    path = tmp_path / "x.txt"
    path.write_text("\n".join(lines))
    assert run("judge", str(path), "--hardware", "dgx_h100", "--nodes", "2") == 3
    said = capsys.readouterr().out
    assert said.startswith(f"INCONCLUSIVE: the output contradicts itself: line {row + 1}: out-of-place: algbw is ")
    assert '"8589934592 2147483648 float sum -1 4601.751 186.67 350.00 0 ' in said
    assert run("parse", str(path)) == 0
    assert f"line {row + 1}: " in capsys.readouterr().out


@pytest.mark.parametrize(("options", "code", "verdict"), [([], 1, "FAIL"), (["--allow-known-causes"], 0, "PASS")])
def test_known_cause_fails_unless_it_is_allowed(
    tmp_path: Path, options: list[str], code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(
        Path(WHOLE).read_text().replace("NCCL version", "gpu1:1:1 [0] NCCL INFO Using network Socket\nNCCL version")
    )
    assert run("judge", str(path), "--hardware", "dgx_h100", "--nodes", "2", "--floor", "300", *options) == code
    said = capsys.readouterr().out
    assert said.startswith(f"{verdict}: ")
    assert "  InfiniBand not used (NET/Socket)" in said


JUDGED = ["--hardware", "dgx_h100", "--nodes", "2", "--format", "json"]


def test_judge_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl", "judge", WHOLE, *JUDGED]) == 1
    expected = capsys.readouterr().out
    for text in (Path(WHOLE).read_bytes(), Path(WHOLE).read_text().encode("utf-16")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert main(["judge", "-", *JUDGED]) == 1
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize("text", [b"", b" \n", bytes(range(32)) * 8, b'{"version": 1}'])
def test_standard_input_without_output_of_a_run_is_refused(
    text: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["judge", "-", *JUDGED]) == 2
    assert capsys.readouterr().err.startswith("busbar: standard input ")


def test_judge_gives_each_file_a_verdict_and_exits_with_the_worst(capsys: pytest.CaptureFixture[str]) -> None:
    other = str(FIXTURES / "mpi_2_nodes.txt")
    assert main(["judge", other, WHOLE, *JUDGED]) == 1
    verdicts = {name: answer["verdict"] for name, answer in json.loads(capsys.readouterr().out).items()}
    assert verdicts == {other: "INCONCLUSIVE", WHOLE: "FAIL"}
    assert main(["judge", other, WHOLE, "--hardware", "dgx_h100", "--nodes", "2", "--floor", "340"]) == 3
    said = capsys.readouterr().out
    assert f"{other}: INCONCLUSIVE: " in said
    assert f"{WHOLE}: PASS: " in said
