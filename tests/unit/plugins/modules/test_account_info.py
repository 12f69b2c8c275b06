"""What the module finds on a host."""

from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.module_utils.access.accounts import password_digest
from ansible_collections.busbar.cluster.plugins.modules import account_info

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.busbar.cluster.plugins.module_utils.storage.mounts import Mount


def test_names_and_numbers_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    me = pwd.getpwuid(os.getuid())
    (tmp_path / "alice").touch()
    args = {"users": ["nobody-of-this-name"], "uids": [me.pw_uid], "gids": [me.pw_gid], "key_directory": str(tmp_path)}
    with patch_module_args(args), pytest.raises(SystemExit):
        account_info.main()
    found = json.loads(capsys.readouterr().out)
    assert list(found["users"]) == [me.pw_name]
    assert found["users"][me.pw_name]["home"] == me.pw_dir
    assert me.pw_gid in found["groups"].values()
    assert found["key_files"] == ["alice"]
    assert found["changed"] is False


@pytest.mark.parametrize(
    ("text", "digests"),
    [
        ("alice:$6$a$b:1:::::\n", {"alice": password_digest("$6$a$b")}),
        ("alice:!:1:::::\nbob:*:1:::::\ncarol::1:::::\nbroken\n", {}),
        ("alice:!$6$a$b:1:::::\n", {}),
    ],
)
def test_only_passwords_that_work_have_a_digest(tmp_path: Path, text: str, digests: dict[str, str]) -> None:
    (tmp_path / "shadow").write_text(text)
    assert account_info.shadow_digests(account_info.shadow_rows(tmp_path / "shadow")) == digests


def test_no_shadow_file_is_no_password(tmp_path: Path) -> None:
    assert account_info.shadow_digests(account_info.shadow_rows(tmp_path / "shadow")) == {}


def test_an_account_whose_day_has_come_is_locked() -> None:
    text = "alice:$6$a:1:0:99999:7::1:\nbob:!:1:::::20000:\ncarol:!:1:::::\ndan:!:1::::::\nbroken\n"
    rows = [line.split(":") for line in text.splitlines()]
    assert account_info.expired(rows, 19999) == {"alice"}
    assert account_info.expired(rows, 20000.5) == {"alice", "bob"}


def test_homes_of_a_server_that_is_gone_are_taken_for_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def never(_: object, seconds: float) -> bool:
        asked.append(seconds)
        raise TimeoutError

    monkeypatch.setattr(account_info, "bounded", never)
    network: Mount = {"path": "/shared", "fstype": "nfs4", "source": "ctl:/shared", "options": []}
    homes = account_info.Homes([{"path": "/", "fstype": "ext4", "source": "/dev/vda", "options": []}, network])
    assert homes.exists("/shared/home/alice")
    assert homes.exists("/shared/home/bob")
    assert len(asked) == 1, "one wait is enough for all homes"
    assert homes.exists(str(tmp_path))
    assert not homes.exists(str(tmp_path / "nobody"))


@pytest.mark.parametrize(
    ("squeue", "says"),
    [
        (
            "printf '7|RUNNING|ME|a|q|p|gpu2||1|1:00|N/A|cpu=1|\\n' | tr '|' '\\037'",
            "job 7 (on gpu2)",
        ),
        ("echo nobody answers >&2; exit 1", "jobs that slurmctld does not tell (nobody answers)"),
        ("true", ""),
    ],
)
def test_what_a_leaving_user_runs_is_found_in_one_trip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, squeue: str, says: str
) -> None:
    me = pwd.getpwuid(os.getuid())
    program = tmp_path / "squeue"
    program.write_text(f"#!/bin/sh\n{squeue.replace('ME', me.pw_name)}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(account_info, "runs_slurmctld", lambda: True)
    with patch_module_args({"users": [me.pw_name], "leaving": [me.pw_name, "gone"]}), pytest.raises(SystemExit):
        account_info.main()
    active = json.loads(capsys.readouterr().out)["active"]
    assert list(active) == [me.pw_name]
    assert (says in active[me.pw_name]) == bool(says)
    # This test runs as that user, too.
    assert any(sentence.startswith("process ") for sentence in active[me.pw_name])


def test_nothing_is_asked_where_nobody_leaves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_info, "user_processes", lambda _: pytest.fail("looked"))
    with patch_module_args({"users": [pwd.getpwuid(os.getuid()).pw_name]}), pytest.raises(SystemExit):
        account_info.main()
    assert json.loads(capsys.readouterr().out)["active"] == {}


def test_what_a_leaving_user_runs_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    looks = iter([{me: ["process 7 (sleep)"]}, {me: ["process 7 (sleep)"]}, {}])
    monkeypatch.setattr(account_info, "user_processes", lambda _: next(looks))
    monkeypatch.setattr(account_info, "user_jobs", lambda *_: {})
    monkeypatch.setattr(account_info, "BETWEEN_LOOKS_S", 0.01)

    def active(**arguments: object) -> dict[str, list[str]]:
        with patch_module_args({"users": [me], "leaving": [me], **arguments}), pytest.raises(SystemExit):
            account_info.main()
        found: dict[str, list[str]] = json.loads(capsys.readouterr().out)["active"]
        return found

    assert active(wait_s=60) == {}
    looks = iter([{me: ["process 7 (sleep)"]}] * 1000)
    assert active(wait_s=1)[me] == ["process 7 (sleep)"]
    looks = iter([{me: ["process 7 (sleep)"]}])
    assert active(wait_s=60, _ansible_check_mode=True)[me] == ["process 7 (sleep)"]
