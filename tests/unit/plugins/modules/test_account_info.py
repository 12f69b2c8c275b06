"""Tests of the users, groups and processes that the module finds on a host."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.accounts import password_digest
from ansible_collections.busbar.cluster.plugins.modules import account_info
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.busbar.cluster.plugins.module_utils.storage.mounts import Mount


GROUPS = [{"name": "busbar-research", "gid": 2000001}]
ALICE = {"name": "busbar-alice", "uid": 2000001, "group": "busbar-research", "authorized_keys": ["ssh-ed25519 AAAA"]}


def asked(capsys: pytest.CaptureFixture[str], *accounts: dict[str, Any], **options: object) -> dict[str, Any]:
    return module_result(account_info, capsys, accounts=list(accounts), host="gpu1", **options)


def active(capsys: pytest.CaptureFixture[str], *names: str, **options: object) -> str:
    """Return the problems that prevent the removal of users."""
    plan = asked(capsys, *({"name": name, "state": "absent"} for name in names), **options)["plan"]
    return "; ".join(problem["problem"] for problem in plan["problems"])


def test_required_changes_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "busbar-bob").touch()
    options: dict[str, Any] = {"groups": GROUPS, "key_directory": str(tmp_path), "create_home": True}
    plan = asked(capsys, ALICE, {"name": "busbar-bob", "state": "absent"}, **options)["plan"]
    assert (plan["problems"], plan["changes"], plan["groups"]) == ([], True, GROUPS)
    assert [(user["name"], user["home"], user["create_home"]) for user in plan["users"]] == [
        ("busbar-alice", "/home/busbar-alice", True)
    ]
    assert plan["key_files"] == [
        {"path": f"{tmp_path}/busbar-alice", "content": "ssh-ed25519 AAAA\n"},
        {"path": f"{tmp_path}/busbar-bob", "state": "absent"},
    ]
    assert plan["passwords"] == []
    digests = {"busbar-alice": password_digest("$6$a$b")}
    plan = asked(capsys, ALICE, password_digests=digests, **options)["plan"]
    assert plan["passwords"] == [{"name": "busbar-alice"}]
    assert asked(capsys, **options | {"groups": []})["plan"]["changes"] is False


def test_directory_user_is_not_removed_from_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(account_info, "PASSWD", tmp_path / "passwd")
    (tmp_path / "passwd").write_text("")
    assert asked(capsys, {"name": me, "state": "absent"})["plan"]["users_absent"] == []


def test_conflict_prevents_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    me = pwd.getpwuid(os.getuid())
    mine = {"name": "busbar-alice", "uid": me.pw_uid}
    plan = asked(capsys, mine)["plan"]
    assert list(plan) == ["problems"]
    assert f"taken by {me.pw_name}" in plan["problems"][0]["problem"]
    for problem in asked(capsys, mine, key="validation_uid")["plan"]["problems"]:
        assert (problem["hosts"], problem["key"]) == (["gpu1"], "validation_uid")


def test_home_of_another_user_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(account_info, "PASSWD", tmp_path / "passwd")
    monkeypatch.setattr(account_info, "activity", lambda *_: {})
    (tmp_path / "passwd").write_text(f"{me.pw_name}:x\n")
    leaving = {"name": me.pw_name, "state": "absent", "remove_home": True}
    renamed = {"name": "busbar-alice", "uid": me.pw_uid, "home": me.pw_dir}
    (problem,) = asked(capsys, leaving, renamed)["plan"]["problems"]
    assert problem["key"] == f"users_accounts[{me.pw_name}].remove_home"
    assert problem["problem"] == f"would delete {me.pw_dir}, the home of busbar-alice"
    for kept in (f"{me.pw_dir}/", f"{me.pw_dir}/below"):
        (problem,) = asked(capsys, leaving, renamed | {"home": kept})["plan"]["problems"]
        assert problem["problem"] == f"would delete {kept}, the home of busbar-alice"
    assert asked(capsys, leaving, renamed | {"home": "/home/other"})["plan"]["problems"] == []
    assert asked(capsys, leaving | {"remove_home": False}, renamed)["plan"]["problems"] == []


def test_error_of_an_invalid_item_names_host_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    for item, words in (({"name": "a", "uid": "x"}, "invalid literal"), ({"uid": 7}, "'name' is missing")):
        answer = asked(capsys, item)
        assert answer["failed"]
        assert answer["msg"].startswith("gpu1: users_accounts, users_groups: ")
        assert words in answer["msg"]


@pytest.mark.parametrize(
    ("text", "digests"),
    [
        ("alice:$6$a$b:1:::::\n", {"alice": password_digest("$6$a$b")}),
        ("alice:!:1:::::\nbob:*:1:::::\ncarol::1:::::\nbroken\n", {}),
        ("alice:!$6$a$b:1:::::\n", {}),
    ],
)
def test_only_usable_passwords_have_a_digest(tmp_path: Path, text: str, digests: dict[str, str]) -> None:
    (tmp_path / "shadow").write_text(text)
    assert account_info.shadow_digests(account_info.shadow_rows(tmp_path / "shadow")) == digests


def test_missing_shadow_file_has_no_digests(tmp_path: Path) -> None:
    assert account_info.shadow_digests(account_info.shadow_rows(tmp_path / "shadow")) == {}


def test_expired_account_is_locked() -> None:
    text = "alice:$6$a:1:0:99999:7::1:\nbob:!:1:::::20000:\ncarol:!:1:::::\ndan:!:1::::::\nbroken\n"
    rows = [line.split(":") for line in text.splitlines()]
    assert account_info.expired(rows, 19999) == {"alice"}
    assert account_info.expired(rows, 20000.5) == {"alice", "bob"}


def test_homes_on_an_unreachable_server_are_assumed_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("echo nobody answers >&2; exit 1", "unknown jobs: slurmctld did not list them (nobody answers)"),
        ("true", ""),
    ],
)
def test_processes_and_jobs_of_a_removed_user_are_found_in_one_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, squeue: str, says: str
) -> None:
    me = pwd.getpwuid(os.getuid())
    executable(tmp_path / "squeue", f"#!/bin/sh\n{squeue.replace('ME', me.pw_name)}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(account_info, "runs_slurmctld", lambda: True)
    said = active(capsys, me.pw_name, "gone")
    assert said.count("cannot be removed yet") == 1
    assert says in said
    assert ("job" in said) == bool(says)
    # The test itself also runs as this user.
    assert f"user {me.pw_name} cannot be removed yet" in said
    assert "process " in said


def test_processes_are_not_read_if_no_user_is_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_info, "user_processes", lambda _: pytest.fail("looked"))
    me = pwd.getpwuid(os.getuid())
    assert me.pw_name in asked(capsys, {"name": me.pw_name, "uid": me.pw_uid})["users"]


def test_processes_of_a_removed_user_are_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    looks = iter([{me: ["process 7 (sleep)"]}, {me: ["process 7 (sleep)"]}, {}])
    monkeypatch.setattr(account_info, "user_processes", lambda _: next(looks))
    monkeypatch.setattr(account_info, "user_jobs", lambda *_: {})
    monkeypatch.setattr(account_info, "BETWEEN_LOOKS_S", 0.01)

    assert active(capsys, me, wait_s=60) == ""
    looks = iter([{me: ["process 7 (sleep)"]}] * 1000)
    assert "process 7 (sleep)" in active(capsys, me, wait_s=1)
    looks = iter([{me: ["process 7 (sleep)"]}])
    assert "process 7 (sleep)" in active(capsys, me, wait_s=60, _ansible_check_mode=True)
