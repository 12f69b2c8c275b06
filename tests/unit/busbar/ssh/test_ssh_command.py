"""Tests of `busbar ssh bootstrap`: its input, its trust in host keys, and its output."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

import paramiko
import pytest
from busbar.commands import ssh
from busbar.errors import UsageError
from busbar.ssh.bootstrap import Login, Outcome, bootstrap
from busbar.ssh.host_keys import KnownHosts, RefusedKeyError, Target, fingerprint, tunnel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPnhKUk7cJHuJnGjrcZYIcKPs9FBuPtIGSNSs7UydBq3"


def _key(line: str) -> paramiko.PKey:
    entry = paramiko.hostkeys.HostKeyEntry.from_line(f"x {line}")
    assert entry is not None
    return entry.key


TARGET = Target("gpu1", "10.0.0.1", 22, "admin")


def test_key_with_a_given_fingerprint_is_recorded(tmp_path: Path) -> None:
    known = KnownHosts(tmp_path / "new" / "known_hosts")
    assert not known.is_known(TARGET, _key(KEY))
    known.record(TARGET, _key(KEY))
    assert known.path.read_text() == f"10.0.0.1 {KEY}\n"
    assert known.is_known(TARGET, _key(KEY))
    assert KnownHosts(known.path).is_known(TARGET, _key(KEY))
    with pytest.raises(
        RefusedKeyError, match=r"has the host key ssh-ed25519 SHA256:\S+ \(expected ssh-ed25519 SHA256:"
    ):
        known.is_known(TARGET, _key(OTHER))


def test_key_that_changes_between_scan_and_login_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedKeyError, match="changed its host key during this run"):
        KnownHosts(tmp_path / "known_hosts").missing_host_key(paramiko.SSHClient(), "10.0.0.1", _key(KEY))


@pytest.mark.parametrize("own", [True, False])
def test_revoked_key_is_refused_although_it_is_recorded(tmp_path: Path, *, own: bool) -> None:
    mine, cluster = tmp_path / "known_hosts", tmp_path / "secrets_known_hosts"
    mine.write_text(f"10.0.0.1 {KEY}\n" + (f"@revoked * {KEY}\n" if own else ""))
    cluster.write_text("# cluster\n" + ("" if own else f"@revoked gpu1,10.0.0.1 {KEY}\n"))
    known = KnownHosts(mine, cluster)
    place = f"{mine if own else cluster}, line 2"
    with pytest.raises(RefusedKeyError, match=re.escape(f"is revoked in {place}: {fingerprint(_key(KEY))}")):
        known.is_known(TARGET, _key(KEY))


def test_keys_trusted_by_another_file_are_not_adopted(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(f"10.0.0.1 {KEY}\n")
    assert not KnownHosts(tmp_path / "mine", tmp_path / "other").is_known(TARGET, _key(KEY))


def test_recorded_keys_are_read_and_other_lines_left_alone(tmp_path: Path) -> None:
    text = f"# mine\n@cert-authority gpu* {OTHER}\ngpu1,10.0.0.1 {KEY}\n[gpu2]:2222 {KEY}\nbroken\n"
    (tmp_path / "known_hosts").write_text(text)
    known = KnownHosts(tmp_path / "known_hosts")
    for name in ("gpu1", "10.0.0.1", "[gpu2]:2222"):
        assert known.keys.lookup(name)
    assert known.keys.lookup("gpu2") is None
    assert known.path.read_text() == text


@pytest.mark.parametrize(("port", "name"), [(22, "10.0.0.1"), (2222, "[10.0.0.1]:2222")])
def test_name_in_known_hosts(port: int, name: str) -> None:
    assert Target("gpu1", "10.0.0.1", port, "admin").known_as == name


def test_password_is_asked_once_and_only_when_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = {"a": None, "b": "secret", "c": "another"}

    def visit(target: Target, _login: Login, password: str | None) -> Outcome | None:
        return Outcome(target.name, ok=True, message="key installed") if opened[target.name] == password else None

    asked = []

    def ask() -> str:
        asked.append(1)
        return "secret"

    monkeypatch.setattr("busbar.ssh.bootstrap._bootstrap_host", visit)
    monkeypatch.setattr("busbar.ssh.bootstrap.read_host_key", lambda *_: _key(KEY))
    shown: list[str] = []

    def trust(fresh: Mapping[Target, str]) -> dict[Target, str]:
        assert not asked
        shown.extend(target.name for target in fresh)
        return {}

    login = Login(KEY, None, KnownHosts(tmp_path / "known_hosts"))
    targets = [Target(name, name, 22, "admin") for name in opened]
    outcomes = bootstrap(targets, login, trust, ask)
    assert [(outcome.name, outcome.ok) for outcome in outcomes] == [("a", True), ("b", True), ("c", False)]
    assert outcomes[2].message == "wrong password"
    assert (asked, shown) == ([1], ["a", "b", "c"])
    assert bootstrap(targets[:1], login, trust, lambda: pytest.fail("nobody needs it"))[0].ok
    assert shown == ["a", "b", "c"], "a recorded key is not asked for again"


def test_no_password_is_sent_to_a_host_with_an_unconfirmed_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("busbar.ssh.bootstrap._bootstrap_host", lambda *_: pytest.fail("something was sent"))
    monkeypatch.setattr("busbar.ssh.bootstrap.read_host_key", lambda *_: _key(KEY))
    (tmp_path / "known_hosts").write_text(f"@revoked * {KEY}\n10.0.0.1 {KEY}\n")
    revoked = Login(KEY, None, KnownHosts(tmp_path / "known_hosts"))
    unknown = Login(KEY, None, KnownHosts(tmp_path / "none"))

    def nobody_asks() -> str:
        pytest.fail("the password was asked for")

    def refuse(fresh: Mapping[Target, str]) -> dict[Target, str]:
        return dict.fromkeys(fresh, "its host key was not confirmed")

    (first,) = bootstrap([TARGET], revoked, refuse, nobody_asks)
    assert (first.ok, "is revoked in" in first.message, "ssh-keygen -A" in first.remedy) == (False, True, True)
    (second,) = bootstrap([TARGET], unknown, refuse, nobody_asks)
    assert (second.ok, second.message) == (False, "its host key was not confirmed")
    assert not unknown.known_hosts.path.exists()


@pytest.mark.parametrize(
    ("arguments", "proxy_command"),
    [
        ("", ""),
        ("-o UserKnownHostsFile='~/.ssh/known_hosts /x y'", ""),
        ("-J ops@front:2200", "ssh -o BatchMode=yes -i key -W '[10.0.0.1]:2222' ssh://ops@front:2200"),
        ("-o ProxyJump=a,b", "ssh -o BatchMode=yes -i key -J a -W '[10.0.0.1]:2222' ssh://b"),
        ("-o ProxyCommand='nc -x %% %h %p %r'", "nc -x % 10.0.0.1 2222 admin"),
    ],
    ids=["none", "others", "a jump host", "two", "a command"],
)
def test_proxy_command_of_a_jump_host(arguments: str, proxy_command: str) -> None:
    target = Target("gpu1", "10.0.0.1", 2222, "admin", f"-F none {arguments}")
    assert tunnel(target, "-i", "key") == proxy_command


def test_jump_host_is_set_up_before_the_hosts_behind_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[str] = []

    def read(target: Target, _kinds: object, proxy_command: str) -> object:
        done.append(f"key of {target.name}{' through the jump host' if proxy_command else ''}")
        return _key(KEY)

    def visit(target: Target, _login: Login, password: str | None) -> Outcome | None:
        done.append(f"log in to {target.name}")
        return Outcome(target.name, ok=True, message="key installed") if password else None

    monkeypatch.setattr("busbar.ssh.bootstrap.read_host_key", read)
    monkeypatch.setattr("busbar.ssh.bootstrap._bootstrap_host", visit)
    login = Login(KEY, None, KnownHosts(tmp_path / "known_hosts"))
    targets = [
        Target("gpu1", "10.0.0.1", 22, "admin", "-F none -J admin@front"),
        Target("front", "10.0.0.9", 22, "admin", "-F none"),
    ]
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        return "secret"

    outcomes = bootstrap(targets, login, lambda _fresh: {}, ask)
    assert [outcome.name for outcome in outcomes if outcome.ok] == ["gpu1", "front"]
    assert (done.index("log in to front") < done.index("key of gpu1 through the jump host"), asked) == (True, [1])


SHOWN = fingerprint(_key(KEY))
GOOD, BAD = SHOWN.split()[1], fingerprint(_key(OTHER)).split()[1]


def _vouch(monkeypatch: pytest.MonkeyPatch, *fingerprints: str, answer: str = "") -> str:
    """Confirm the key of one host; return the reason of a refusal, or ''."""
    given = [ssh.host_fingerprint(text) for text in fingerprints]
    args = argparse.Namespace(fingerprint=given)
    monkeypatch.setattr("sys.stdin.isatty", lambda: bool(answer), raising=False)
    monkeypatch.setattr("builtins.input", lambda _prompt: answer or pytest.fail("nobody is there to answer"))
    return ssh.confirm_keys({TARGET: SHOWN}, args).get(TARGET, "")


@pytest.mark.parametrize(
    ("answers", "reason"),
    [(["y", "", "YES"], None), (["y", "no"], "was not confirmed"), (["y"], "was not confirmed")],
)
def test_other_answers_are_asked_again(monkeypatch: pytest.MonkeyPatch, answers: list[str], reason: str | None) -> None:
    typed = iter(answers)

    def answer(_prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    refused = ssh.confirm_keys({TARGET: SHOWN}, argparse.Namespace(fingerprint=[]))
    assert refused == ({} if reason is None else {TARGET: f"its host key {reason}"})
    assert list(typed) == []


def test_only_yes_or_the_right_fingerprint_confirms_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _vouch(monkeypatch, answer="yes") == ""
    assert f"  gpu1 {SHOWN}" in capsys.readouterr().out
    assert _vouch(monkeypatch, answer="no") == "its host key was not confirmed"
    assert f"--fingerprint gpu1={GOOD}" in _vouch(monkeypatch)
    assert _vouch(monkeypatch, f"gpu1={GOOD}") == ""
    assert _vouch(monkeypatch, f"10.0.0.1={BAD}", f"10.0.0.1={GOOD}") == ""
    assert "which does not match --fingerprint" in _vouch(monkeypatch, f"gpu1={BAD}", answer="yes")


@pytest.mark.parametrize("text", ["gpu1", f"={GOOD}", "gpu1=MD5:00", "gpu1=SHA256:short", f"gpu1={GOOD}="])
def test_invalid_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST=SHA256:"):
        ssh.host_fingerprint(text)


def test_fingerprint_of_an_unknown_host_is_refused() -> None:
    ssh.check_hosts([("gpu1", GOOD), ("10.0.0.1", GOOD)], [TARGET])
    with pytest.raises(UsageError, match="--fingerprint: gpu9 is not a host of this run"):
        ssh.check_hosts([("gpu9", GOOD)], [TARGET])


@pytest.mark.parametrize(
    "text",
    ["", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", f"{KEY}\n{OTHER}\n", "hello"],
)
def test_only_a_public_key_is_sent(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(UsageError, match="is not a public key"):
        ssh.read_public_key(tmp_path / "key")


def test_public_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(f"\n{KEY} me@laptop\n")
    assert ssh.read_public_key(tmp_path / "key.pub") == f"{KEY} me@laptop"


def test_missing_key_is_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="ssh-keygen -t ed25519"):
        ssh.public_key_file(None)
    with pytest.raises(UsageError, match="no such file"):
        ssh.public_key_file(tmp_path / "gone.pub")


INVENTORY = """\
all:
  vars: {ansible_user: "{{ who }}", who: admin}
  children:
    gpus: {hosts: {"gpu[1:2]": {}, gpu3: {ansible_host: 10.0.0.3, ansible_port: 2222, ansible_user: root}}}
"""


def test_targets_of_an_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY.replace("who: admin", 'who: admin, cluster_secrets_dir: "{{ inventory_dir }}/keys"'))
    targets, known_hosts = ssh.read_targets(str(path), "gpus:!gpu2", None)
    assert targets == [Target("gpu1", "gpu1", 22, "admin"), Target("gpu3", "10.0.0.3", 2222, "root")]
    assert known_hosts == [tmp_path / "keys" / "known_hosts"]
    assert {target.user for target in ssh.read_targets(str(path), "all", "me")[0]} == {"me"}


@pytest.mark.parametrize(("folder", "secrets"), [("site", "site/secrets"), ("site/inventory", "site/secrets")])
def test_default_folder_of_secrets_is_in_the_site(tmp_path: Path, folder: str, secrets: str) -> None:
    path = tmp_path / folder / "hosts.yml"
    path.parent.mkdir(parents=True)
    path.write_text(INVENTORY)
    _, known_hosts = ssh.read_targets(str(path), "all", None)
    assert known_hosts == [tmp_path / secrets / "known_hosts"]


@pytest.mark.parametrize(("inventory", "limit"), [("hosts.yml", "nobody"), ("gone", "all")])
def test_missing_target_is_a_usage_error(tmp_path: Path, inventory: str, limit: str) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    with pytest.raises(UsageError, match=r"no host matches|no such file"):
        ssh.read_targets(str(tmp_path / inventory), limit, None)


def test_password_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("from a file\n")
    args = argparse.Namespace(password_file=tmp_path / "password")
    assert ssh.password(args) == "from a file"
    args.password_file = None
    monkeypatch.setenv(ssh.PASSWORD_VARIABLE, "from the environment")
    assert ssh.password(args) == "from the environment"
    monkeypatch.delenv(ssh.PASSWORD_VARIABLE)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="set BUSBAR_SSH_PASSWORD"):
        ssh.password(args)


def test_hosts_with_equal_outcomes_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome(f"gpu{number}", ok=True, message="key was there") for number in (1, 2, 3)]
    outcomes.append(Outcome("gpu9", ok=False, message="does not answer", remedy="check its power"))
    outcomes.append(Outcome("ctl", ok=True, message="key installed"))
    ssh.show(outcomes)
    assert capsys.readouterr().out.splitlines() == [
        "ok: gpu[1-3]: key was there",
        "ok: ctl: key installed",
        "FAILED: gpu9: does not answer (check its power)",
    ]
