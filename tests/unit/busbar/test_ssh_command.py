"""`busbar ssh bootstrap`: what it reads, whom it trusts, what it prints."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import paramiko
import pytest
from busbar import ssh_command
from busbar.errors import UsageError
from busbar.ssh_bootstrap import Door, KnownHosts, Outcome, Target, bootstrap, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPnhKUk7cJHuJnGjrcZYIcKPs9FBuPtIGSNSs7UydBq3"
PRINT = "ssh-ed25519 SHA256:"


def _key(line: str) -> paramiko.PKey:
    entry = paramiko.hostkeys.HostKeyEntry.from_line(f"x {line}")
    assert entry is not None
    return entry.key


def _meet(known: KnownHosts, name: str, line: str) -> None:
    known.missing_host_key(paramiko.SSHClient(), name, _key(line))


def test_first_contact_is_recorded_once(tmp_path: Path) -> None:
    known = KnownHosts(tmp_path / "new" / "known_hosts")
    _meet(known, "10.0.0.1", KEY)
    _meet(known, "10.0.0.1", KEY)
    assert known.path.read_text() == f"10.0.0.1 {KEY}\n"
    assert known.fresh["10.0.0.1"] == fingerprint(_key(KEY))
    assert known.fresh["10.0.0.1"].startswith(PRINT)


def test_a_second_key_for_one_name_is_refused(tmp_path: Path) -> None:
    known = KnownHosts(tmp_path / "known_hosts")
    _meet(known, "10.0.0.1", KEY)
    with pytest.raises(paramiko.BadHostKeyException):
        _meet(known, "10.0.0.1", OTHER)


def test_recorded_keys_are_read_and_other_lines_left_alone(tmp_path: Path) -> None:
    text = f"# mine\n@cert-authority gpu* {OTHER}\ngpu1,10.0.0.1 {KEY}\n[gpu2]:2222 {KEY}\nbroken\n"
    (tmp_path / "known_hosts").write_text(text)
    known = KnownHosts(tmp_path / "known_hosts", accept_new=False)
    for name in ("gpu1", "10.0.0.1", "[gpu2]:2222"):
        assert known.keys.lookup(name)
    assert known.keys.lookup("gpu2") is None
    assert known.path.read_text() == text


@pytest.mark.parametrize(("port", "name"), [(22, "10.0.0.1"), (2222, "[10.0.0.1]:2222")])
def test_name_in_known_hosts(port: int, name: str) -> None:
    assert Target("gpu1", "10.0.0.1", port, "admin").known_as == name


def test_password_is_asked_once_and_only_when_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = {"a": None, "b": "secret", "c": "another"}

    def visit(target: Target, _door: Door, password: str | None) -> Outcome | None:
        return Outcome(target.name, ok=True, message="key installed") if opened[target.name] == password else None

    asked = []

    def ask() -> str:
        asked.append(1)
        return "secret"

    monkeypatch.setattr("busbar.ssh_bootstrap._visit", visit)
    door = Door(KEY, None, KnownHosts(tmp_path / "known_hosts"))
    targets = [Target(name, name, 22, "admin") for name in opened]
    outcomes = bootstrap(targets, door, ask, 4)
    assert [(outcome.name, outcome.ok) for outcome in outcomes] == [("a", True), ("b", True), ("c", False)]
    assert outcomes[2].message == "the password is wrong"
    assert asked == [1]
    assert bootstrap(targets[:1], door, lambda: pytest.fail("nobody needs it"), 4)[0].ok


@pytest.mark.parametrize(
    "text",
    ["", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", f"{KEY}\n{OTHER}\n", "hello"],
)
def test_only_a_public_key_is_sent(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(UsageError, match="is not a public key"):
        ssh_command.read_public_key(tmp_path / "key")


def test_public_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(f"\n{KEY} me@laptop\n")
    assert ssh_command.read_public_key(tmp_path / "key.pub") == f"{KEY} me@laptop"


def test_key_that_is_missing_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="ssh-keygen -t ed25519"):
        ssh_command.public_key_file(None)
    with pytest.raises(UsageError, match="no such file"):
        ssh_command.public_key_file(tmp_path / "gone.pub")


INVENTORY = """\
all:
  vars: {ansible_user: "{{ who }}", who: admin}
  children:
    gpus: {hosts: {"gpu[1:2]": {}, gpu3: {ansible_host: 10.0.0.3, ansible_port: 2222, ansible_user: root}}}
"""


def test_targets_of_an_inventory(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    assert ssh_command.read_targets(str(path), "gpus:!gpu2", None) == [
        Target("gpu1", "gpu1", 22, "admin"),
        Target("gpu3", "10.0.0.3", 2222, "root"),
    ]
    assert {target.user for target in ssh_command.read_targets(str(path), "all", "me")} == {"me"}


@pytest.mark.parametrize(("inventory", "limit"), [("hosts.yml", "nobody"), ("gone", "all")])
def test_no_target_is_a_usage_error(tmp_path: Path, inventory: str, limit: str) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    with pytest.raises(UsageError, match=r"no host matches|no such file"):
        ssh_command.read_targets(str(tmp_path / inventory), limit, None)


def test_password_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("from a file\n")
    args = argparse.Namespace(password_file=tmp_path / "password", ask_password=False)
    assert ssh_command.password(args) == "from a file"
    args.password_file = None
    monkeypatch.setenv(ssh_command.PASSWORD_VARIABLE, "from the environment")
    assert ssh_command.password(args) == "from the environment"
    monkeypatch.delenv(ssh_command.PASSWORD_VARIABLE)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="set BUSBAR_SSH_PASSWORD"):
        ssh_command.password(args)


def test_hosts_with_one_outcome_share_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcomes = [Outcome(f"gpu{number}", ok=True, message="key was there") for number in (1, 2, 3)]
    outcomes.append(Outcome("gpu9", ok=False, message="does not answer", remedy="check its power"))
    outcomes.append(Outcome("ctl", ok=True, message="key installed", fingerprint=f"{PRINT}abc"))
    ssh_command.show(outcomes, tmp_path / "known_hosts")
    assert capsys.readouterr().out.splitlines() == [
        f"host keys seen for the first time, recorded in {tmp_path / 'known_hosts'}:",
        f"  ctl {PRINT}abc",
        "ok: gpu[1-3]: key was there",
        "ok: ctl: key installed",
        "FAILED: gpu9: does not answer (check its power)",
    ]


@pytest.mark.parametrize("text", ["0", "-1", "x", "513"])
def test_jobs_are_bounded(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        ssh_command.jobs(text)
