"""Tests of recorded restic 0.14 and 0.18 output, and of the resulting errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup.repository import Repository
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError, Settings
from ansible_collections.busbar.cluster.plugins.module_utils.backup.verify import fetch
from ansible_collections.busbar.cluster.roles.backup.files.backup import metrics_text
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Answers = dict[str, tuple[int, str, str]]

MISSING_014 = (
    1,
    "",
    """Fatal: unable to open config file: stat /srv/repo/config: no such file or directory
Is there a repository at the following location?
/srv/repo
""",
)
MISSING_018 = (
    10,
    "",
    """Fatal: repository does not exist: unable to open config file: stat /srv/repo/config: no such file or directory
Is there a repository at the following location?
/srv/repo
""",
)
NO_SSH = (1, "", "Fatal: unable to open repository at sftp:x@keeper:/r: unable to start the sftp session, error: EOF\n")
PASSWORD = (1, "", "Fatal: wrong password or no key found\n")
FOUND = (0, '{"version": 2, "id": "5956a3f67a", "chunker_polynomial": "2b3dd009e7ef03"}\n', "")
SNAPSHOTS = json.dumps(
    [
        {"id": "bbbb5678", "time": "2026-11-22T02:30:11.5Z", "hostname": "ctl", "tags": ["busbar"]},
        {"id": "aaaa1234", "time": "2026-11-23T02:30:11.5Z", "hostname": "ctl", "tags": ["busbar"]},
        {"id": "cccc9999", "time": "2026-11-23T02:31:00.1Z", "hostname": "db", "tags": ["busbar"]},
    ]
)


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[Answers], Repository]:
    """Return a function that makes a repository whose restic prints recorded output and records its calls."""

    def make(answers: Answers) -> Repository:
        for name, (status, output, errors) in answers.items():
            (tmp_path / f"{name}.out").write_text(output)
            (tmp_path / f"{name}.err").write_text(errors)
            (tmp_path / f"{name}.status").write_text(str(status))
        program = tmp_path / "restic"
        executable(
            program,
            "#!/bin/sh\n"
            f'cd {tmp_path}; echo "$@" >>asked\n'
            "for word; do [ -f $word.status ] && break; done\n"
            "cat $word.out; cat $word.err >&2; exit $(cat $word.status)\n",
        )
        return Repository(Settings("lab", "ctl", "/srv/repo", str(tmp_path), restic=str(program)))

    return make


@pytest.mark.parametrize("missing", [MISSING_014, MISSING_018])
def test_repository_is_created_once(missing: tuple[int, str, str], repository: Callable[[Answers], Repository]) -> None:
    assert repository({"cat": missing, "init": (0, "created", "")}).make(known=False) is True
    assert repository({"cat": FOUND}).make(known=True) is False


@pytest.mark.parametrize("missing", [MISSING_014, MISSING_018])
def test_lost_repository_is_not_created_again(
    missing: tuple[int, str, str], repository: Callable[[Answers], Repository], tmp_path: Path
) -> None:
    with pytest.raises(BackupError, match="no restic repository at /srv/repo: check that it is mounted"):
        repository({"cat": missing, "init": (0, "", "")}).make(known=True)
    assert "init" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NO_SSH, "unable to start the sftp session"),
        (PASSWORD, r"/etc/busbar/backup/password is not .*secrets/backup\.password"),
    ],
)
def test_unreachable_repository_is_not_created(
    answer: tuple[int, str, str], said: str, repository: Callable[[Answers], Repository], tmp_path: Path
) -> None:
    with pytest.raises(BackupError, match=said):
        repository({"cat": answer, "init": (0, "", "")}).make(known=False)
    assert "init" not in (tmp_path / "asked").read_text()


def test_the_newest_snapshot_of_this_host_is_chosen(repository: Callable[[Answers], Repository]) -> None:
    there = repository({"snapshots": (0, SNAPSHOTS, "")})
    assert there.choose("latest").id == "aaaa1234"
    assert there.choose("bbbb").id == "bbbb5678"
    for wanted in ("cccc", "bb", "dddd"):
        with pytest.raises(BackupError, match=f"no snapshot '{wanted}' of ctl in /srv/repo. Available: bbbb5678  2026"):
            there.choose(wanted)
    with pytest.raises(BackupError, match="Available: none"):
        repository({"snapshots": (0, "null\n", "")}).choose("latest")


def test_missing_program_is_reported(tmp_path: Path) -> None:
    settings = Settings("lab", "ctl", "/srv/repo", str(tmp_path), restic=str(tmp_path / "none"))
    with pytest.raises(BackupError, match="No such file or directory"):
        Repository(settings).snapshots()


def test_metrics_distinguish_a_failed_run_from_no_run() -> None:
    text = metrics_text({"run": 1700000000.5, "failed": 1, "success": 0}, 93600)
    series = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert series["busbar_backup_last_run_timestamp_seconds"] == "1700000000.5"
    assert (series["busbar_backup_last_run_failed"], series["busbar_backup_last_success_timestamp_seconds"]) == (
        "1",
        "0",
    )
    assert series["busbar_backup_max_age_seconds"] == "93600"


def test_a_snapshot_of_another_cluster_is_refused(repository: Callable[[Answers], Repository], tmp_path: Path) -> None:
    stage = tmp_path / "saved" / str(tmp_path).lstrip("/") / "stage"
    stage.mkdir(parents=True)
    there = repository({"snapshots": (0, SNAPSHOTS, ""), "restore": (0, "", "")})
    restored = tmp_path / "restored"
    program = tmp_path / "restic"
    program.write_text(
        program.read_text().replace(
            "\ncat $word.out", f"\n[ $word != restore ] || cp -r {tmp_path}/saved/. {restored}\ncat $word.out"
        )
    )
    manifest = {"format": 1, "slurm_version": "", "files": {}}
    for cluster, said in (("elsewhere", "found 'elsewhere', expected 'lab'"), ("lab", "")):
        (stage / "manifest.json").write_text(json.dumps({**manifest, "cluster": cluster}))
        if said:
            with pytest.raises(BackupError, match=said):
                fetch(there, there.choose("latest"), restored)
        else:
            assert fetch(there, there.choose("latest"), restored)[1]["cluster"] == "lab"
    (stage / "manifest.json").unlink()
    with pytest.raises(BackupError, match="snapshot aaaa1234 is damaged: its manifest"):
        fetch(there, there.choose("latest"), restored)
