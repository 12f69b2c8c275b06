"""Tests of the collector with real processes that answer, fail and hang like Slurm's commands."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.cluster_metrics import database_bytes
from ansible_collections.busbar.cluster.roles.slurm_metrics.files.slurm_metrics import (
    Collector,
    CommandError,
    Settings,
    ask,
    main,
)
from executables import executable
from slurm_samples import SDIAG, job_record, json_node, nodes_json, squeue_script, text_node

if TYPE_CHECKING:
    from collections.abc import Callable

PING = "Slurmctld(primary) at ctl is UP"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write stand-ins for Slurm's commands that answer and log their calls; return a function that replaces one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def set_command(name: str, script: str) -> None:
        executable(folder / name, f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{script}\n')

    (tmp_path / "nodes").write_text(nodes_json([json_node("gpu1"), json_node("gpu2")]), encoding="utf-8")
    (tmp_path / "jobs").write_text(job_record(1), encoding="utf-8")
    (tmp_path / "sdiag").write_text(SDIAG, encoding="utf-8")
    set_command("scontrol", f'case "$*" in ping) echo "{PING}";; *) cat {tmp_path}/nodes;; esac')
    set_command("squeue", squeue_script(tmp_path / "jobs"))
    set_command("sdiag", f"cat {tmp_path}/sdiag")
    set_command("sacctmgr", "echo busbar")
    return set_command


def collector(**changes: object) -> tuple[Collector, list[str]]:
    said: list[str] = []
    settings = Settings(**({"file": "", "controller": "ctl", "timeout": 3} | changes))  # type: ignore[arg-type]
    return Collector(settings, said.append), said


def values(found: Collector) -> dict[str, float]:
    """Return the first sample of each family."""
    return {family.name: family.samples[0][1] for family in found.collect() if family.samples}


def jobs_of(found: Collector) -> list[str]:
    """Return the IDs of the jobs that have series."""
    (info,) = (family for family in found.collect() if family.name == "job_info")
    return sorted(labels[0] for labels, _value in info.samples)


@pytest.mark.usefixtures("slurm")
def test_each_query_is_made_once(tmp_path: Path) -> None:
    found, said = collector()
    got = values(found)
    assert (got["up"], got["acting"], got["slurmdbd_up"], got["gpus"], got["rpcs"]) == (1, 1, 1, 16, 25)
    # The format argument of squeue contains characters at which splitlines() would split.
    calls = (tmp_path / "calls").read_text(encoding="utf-8").strip().split("\n")
    assert sorted(call.split()[0] for call in calls) == ["sacctmgr", "scontrol", "scontrol", "sdiag", "squeue"]
    assert said == []
    assert abs(got["collected_timestamp_seconds"] - time.time()) < 10


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("scontrol", "echo 'Slurmctld(primary) at ctl is DOWN'"),
        ("scontrol", "exit 1"),
        ("squeue", "echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1"),
        ("sdiag", "exit 1"),
    ],
)
def test_unreachable_slurmctld_is_down(slurm: Callable[[str, str], None], command: str, script: str) -> None:
    slurm(command, script)
    got = values(collector()[0])
    assert (got["up"], got["slurmdbd_up"]) == (0, 1)


def runs(pid: str) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_hanging_slurmctld_times_out_and_its_processes_are_killed(
    slurm: Callable[[str, str], None], tmp_path: Path
) -> None:
    slurm("scontrol", f"sleep 987 & echo $! $$ >{tmp_path}/pids; wait")
    found, said = collector(timeout=1)
    began = time.monotonic()
    assert values(found)["up"] == 0
    assert time.monotonic() - began < 60
    assert said == ["ping: scontrol ping: no answer within 1 s"]
    for pid in (tmp_path / "pids").read_text(encoding="utf-8").split():
        ended = time.monotonic() + 60
        while runs(pid):
            assert time.monotonic() < ended
            time.sleep(0.05)
    # The same error is reported only once.
    found.collect()
    assert len(said) == 1


def test_failure_of_slurmdbd_is_reported_separately(slurm: Callable[[str, str], None]) -> None:
    slurm("sacctmgr", "echo 'sacctmgr: error: Connection refused' >&2; exit 1")
    found, said = collector()
    got = values(found)
    assert (got["up"], got["slurmdbd_up"]) == (1, 0)
    assert said == [
        "slurmdbd: sacctmgr --noheader --parsable2 failed with exit status 1: sacctmgr: error: Connection refused"
    ]
    slurm("sacctmgr", "echo busbar")
    assert values(found)["slurmdbd_up"] == 1
    assert said[1:] == ["slurmdbd: answers again"]


@pytest.mark.usefixtures("slurm")
def test_without_accounting_sacctmgr_is_not_called(tmp_path: Path) -> None:
    assert "slurmdbd_up" not in values(collector(accounting=False)[0])
    assert "sacctmgr" not in (tmp_path / "calls").read_text(encoding="utf-8")


def test_only_the_acting_controller_reports_the_cluster(slurm: Callable[[str, str], None]) -> None:
    slurm("scontrol", f"echo '{PING}'; echo 'Slurmctld(backup1) at ctl2 is UP'")
    got = values(collector(controller="ctl2")[0])
    assert (got["up"], got["acting"]) == (1, 0)
    assert "nodes" not in got


def test_old_scontrol_without_json_is_parsed_as_text(slurm: Callable[[str, str], None], tmp_path: Path) -> None:
    (tmp_path / "text").write_text(text_node("gpu1"), encoding="utf-8")
    # Error message of Slurm 22.05.
    said_by_it = "scontrol: unrecognized option '--json'\nTry \"scontrol --help\" for more information\n"
    (tmp_path / "refusal").write_text(said_by_it, encoding="utf-8")
    refuse = f"cat {tmp_path}/refusal >&2; exit 1"
    slurm("scontrol", f'case "$*" in ping) echo "{PING}";; *json) {refuse};; *) cat {tmp_path}/text;; esac')
    found, said = collector()
    assert values(found)["gpus"] == 2
    assert values(found)["up"] == 1
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert calls.count("--json") == 1
    assert said == []


def test_unparsable_answer_is_reported_and_slurm_stays_up(
    slurm: Callable[[str, str], None],
) -> None:
    slurm("squeue", "echo what")
    found, said = collector()
    got = values(found)
    assert got["up"] == 1
    assert "jobs" not in got
    assert "nodes" in got
    assert said == ["jobs: cannot parse the output: ValueError: squeue printed an invalid job line: 'what'"]


@pytest.mark.usefixtures("slurm")
def test_delimiters_differ_between_answers(tmp_path: Path) -> None:
    found, said = collector()
    assert jobs_of(found) == ["1"]
    record = (tmp_path / "calls").read_text(encoding="utf-8").rpartition("Name:")[2].partition("\n")[0]
    (tmp_path / "jobs").write_text(job_record(1, name=f"x{record}777") + job_record(2), encoding="utf-8")
    assert jobs_of(found) == ["1", "2"]
    assert said == []


def test_missing_command_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="squeue cannot be started"):
        ask(["squeue"], 1)


@pytest.mark.usefixtures("slurm")
def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    file = tmp_path / "busbar_slurm.prom"
    configuration = tmp_path / "slurm_metrics.json"
    values = {"collector": {"file": str(file), "controller": "ctl"}}
    configuration.write_text(json.dumps(values), encoding="utf-8")
    assert main(["--once"], configuration) == 0
    text = file.read_text(encoding="utf-8")
    assert 'busbar_slurm_up{controller="ctl"} 1.0\n' in text
    assert "busbar_slurm_rpcs_total 25.0\n" in text
    assert "_created" not in text
    assert list(tmp_path.glob("*.prom*")) == [file]


def test_size_of_the_database_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "slurm_acct_db"
    folder.mkdir()
    (folder / "job_table.ibd").write_bytes(b"x" * 100_000)
    size = database_bytes(folder)
    assert 100_000 <= size < 200_000
    file = tmp_path / "size.prom"
    configuration = tmp_path / "slurm_metrics.json"
    values = {"database": {"directory": str(folder), "file": str(file)}}
    configuration.write_text(json.dumps(values), encoding="utf-8")
    assert main(["--database"], configuration) == 0
    assert f"busbar_slurm_database_bytes {float(size)}" in file.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError):
        database_bytes(tmp_path / "gone")
