"""Tests of the output of `busbar backup verify` for answers of hosts and for the site's folder."""

from __future__ import annotations

from typing import Any

import pytest
from busbar.cli import main
from busbar.commands.backup import host_findings, parsed_answers, site_findings, verified_line

OUTPUT = (
    '{"snapshot": "aaaa1234", "parts": ["slurm_state", "accounting"], "made_at": 1700000000, "slurm_version": '
    '"24.11.5", "files": 12, "tables": 30, "rows": 217, "entries": 0}'
)
DONE = {"rc": 0, "output": OUTPUT, "fault": ""}
DAMAGED = {"rc": 1, "output": "", "fault": "busbar-backup: snapshot bbbb5678 is damaged:\n job_state differs"}
ELSEWHERE = {"rc": 3, "output": "", "fault": "busbar-backup: no snapshot 'aaaa' of db"}


def test_verified_files_and_rows_are_counted() -> None:
    assert verified_line("ctl", parsed_answers({"ctl": DONE, "db": DAMAGED})["ctl"]) == (
        "ctl: snapshot aaaa1234 from 2023-11-14 22:13:20 UTC, Slurm 24.11.5: 12 files, 217 rows of 30 tables as saved "
        "(slurm_state, accounting)"
    )


@pytest.mark.parametrize(
    ("told", "wanted", "said"),
    [
        ({"ctl": DONE, "db": DAMAGED}, "latest", {"db": "snapshot bbbb5678 is damaged: job_state differs"}),
        # A selected snapshot belongs to one host; the other hosts do not have it.
        ({"ctl": DONE, "db": ELSEWHERE}, "aaaa", {}),
        ({"ctl": ELSEWHERE, "db": ELSEWHERE}, "aaaa", dict.fromkeys(("ctl", "db"), "no snapshot 'aaaa' of db")),
        ({"ctl": DONE, "db": ELSEWHERE}, "latest", {"db": "no snapshot 'aaaa' of db"}),
        ({"ctl": {"rc": 2, "output": "", "fault": ""}}, "latest", {"ctl": "busbar-backup failed with exit code 2"}),
    ],
)
def test_failed_verification_is_reported(told: dict[str, dict[str, Any]], wanted: str, said: dict[str, str]) -> None:
    assert {each.hosts[0]: each.problem for each in host_findings(told, wanted)} == said


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({"there": False}, [("WARNING", "no snapshot contains")]),
        ({"there": True, "ready": False}, [("ERROR", "restic is not installed")]),
        ({"there": True, "ready": True, "faults": ["Fatal: wrong key"], "differing": []}, [("ERROR", "wrong key")]),
        # restic prints a stack trace after some errors.
        (
            {
                "there": True,
                "ready": True,
                "faults": ["no space left on device\n" + "main.run\n" * 99],
                "differing": [],
            },
            [("ERROR", "no space left")],
        ),
        ({"there": True, "ready": True, "faults": [], "differing": []}, []),
        (
            {
                "there": True,
                "ready": True,
                "faults": [],
                "differing": [
                    "Only in .: ssh_ca",
                    "Only in ./tls: ca.key",
                    "Only in /tmp/x/secrets: former",
                    "Files ./munge.key and /tmp/x/secrets/munge.key differ",
                ],
            },
            [
                ("ERROR", "secrets/ssh_ca is not in the snapshot"),
                ("ERROR", "secrets/tls/ca.key is not in the snapshot"),
                ("ERROR", "secrets/munge.key differs from"),
            ],
        ),
    ],
)
def test_secrets_missing_in_a_snapshot_are_named(site: dict[str, Any], said: list[tuple[str, str]]) -> None:
    found = list(site_findings(site))
    assert [each.severity for each in found] == [severity for severity, _ in said]
    assert all(words in each.problem for each, (_, words) in zip(found, said, strict=True))


def test_invalid_id_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "verify", "yesterday"]) == 2
    assert "'yesterday' is not a snapshot ID" in capsys.readouterr().err
