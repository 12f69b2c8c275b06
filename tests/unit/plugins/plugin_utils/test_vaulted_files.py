"""Tests that encrypted files and values which a run cannot decrypt are reported with file and remedy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[4]
OURS = "ours"


def _encrypted(text: str, password: str = OURS) -> str:
    return str(VaultLib([("default", VaultSecret(password.encode()))]).encrypt(text).decode())


def _value(password: str = OURS) -> str:
    return "\n".join(f"  {line}" for line in _encrypted("s3cret", password).splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an inventory with an encrypted file and an encrypted value."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / "group_vars/all/file.yml").write_text(_encrypted("a: s3cret\n"))
    (folder / "group_vars/all/value.yml").write_text(f"a: 1\nb: [1, {{}}]\nc: !vault |\n{_value()}\n")
    (folder / "hosts.yml").write_text("all: {hosts: {gpu1: {ansible_connection: local}}}\n")
    return folder


def _preflight(site: Path, password: str) -> subprocess.CompletedProcess[str]:
    (site / "password").write_text(f"{password}\n")
    given = ["--vault-password-file", str(site / "password")] if password else []
    playbook = str(TOP / "playbooks/preflight.yml")
    command = ["ansible-playbook", "-i", str(site / "hosts.yml"), playbook, "--check", *given]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("password", ["", "other", OURS])
def test_file_and_remedy_are_named(site: Path, password: str) -> None:
    done = _preflight(site, password)
    assert "s3cret" not in done.stdout + done.stderr
    assert done.returncode == 2, done.stderr
    assert ("PLAY" in done.stdout) == (password == OURS)
    if password == OURS:
        return
    for place in ("file.yml: ", "value.yml:3: "):
        (line,) = (line for line in done.stderr.splitlines() if f"group_vars/all/{place}" in line)
        assert ("no vault password is set" in line) == (not password)
        assert "--ask-vault-pass" in line
        assert "vault_password_file" in line


def test_each_value_can_have_its_own_password(tmp_path: Path) -> None:
    path = tmp_path / "group_vars/all.yml"
    path.parent.mkdir()
    path.write_text(f"a: !vault |\n{_value()}\nb: !vault |\n{_value('other')}\n")
    (tmp_path / "hosts.yml").write_text("all: {hosts: {gpu1: {ansible_connection: local}}}\n")
    done = _preflight(tmp_path, OURS)
    assert done.returncode == 2
    assert "PLAY" not in done.stdout
    line = path.read_text().split("b: !vault")[0].count("\n") + 1
    assert f"{path}:{line}: b is encrypted" in done.stderr
