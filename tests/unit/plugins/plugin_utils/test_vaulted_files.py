"""Encrypted files and values that a run cannot decrypt: named with file and remedy, before any host is contacted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

TOP = Path(__file__).resolve().parents[4]
OURS = "ours"


def _encrypted(text: str) -> str:
    return str(VaultLib([("default", VaultSecret(OURS.encode()))]).encrypt(text).decode())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inventory with an encrypted file and an encrypted value."""
    folder = tmp_path_factory.mktemp("site")
    value = "\n".join(f"  {line}" for line in _encrypted("s3cret").splitlines())
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / "group_vars/all/file.yml").write_text(_encrypted("a: s3cret\n"))
    (folder / "group_vars/all/value.yml").write_text(f"a: 1\nb: [1, {{}}]\nc: !vault |\n{value}\n")
    (folder / "hosts.yml").write_text("all: {hosts: {gpu1: {ansible_connection: local}}}\n")
    return folder


@pytest.mark.parametrize("password", ["", "other", OURS])
def test_file_and_remedy_are_named(site: Path, tmp_path: Path, password: str) -> None:
    (tmp_path / "password").write_text(f"{password}\n")
    given = ["--vault-password-file", str(tmp_path / "password")] if password else []
    command = [
        "ansible-playbook",
        "-i",
        str(site / "hosts.yml"),
        str(TOP / "playbooks/preflight.yml"),
        "--check",
        *given,
    ]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert "s3cret" not in done.stdout + done.stderr
    assert done.returncode == 2, done.stderr
    assert ("PLAY" in done.stdout) == (password == OURS)
    if password == OURS:
        return
    for place in ("file.yml: ", "value.yml:3: "):
        (line,) = (line for line in done.stderr.splitlines() if f"group_vars/all/{place}" in line)
        assert ("no password is given" in line) == (not password)
        assert "--ask-vault-pass" in line
        assert "vault_password_file" in line
