"""Tests of secrets from Ansible Vault or a program: busbar uses them and does not generate files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
PASSWORD, SECRET = "of the vault", "a-munge-key-that-lies-in-a-vault-of-the-site"
ANSIBLE = {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default"}
ANSIBLE |= {"ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.minimal"}
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  roles: [busbar.cluster.site]
  tasks:
    - ansible.builtin.debug:
        msg: "ANSWER{{ [munge_key, absent, plan.problems | map(attribute='key')] | to_json }}"
      vars:
        absent: "{{ query('busbar.cluster.absent_secrets', secrets={'munge.key': known.munge}) }}"
        plan: "{{ query('busbar.cluster.rotation_plan', ['munge'], known=known, reached=['localhost']) | first }}"
        known:
          munge: {secret: munge.key, option: munge_key, used: true, unused: '', hosts: [localhost], pause: none}
"""


def vault(text: str, folder: Path, *arguments: str) -> str:
    """Return the output of ansible-vault for a text."""
    (folder / "password").write_text(PASSWORD)
    command = [sys.executable, "-m", "ansible.cli.vault", *arguments, "--vault-password-file", str(folder / "password")]
    return subprocess.run(command, check=True, input=text, capture_output=True, text=True, cwd=TOP).stdout


def inline(folder: Path) -> dict[str, str]:
    """Return a variables file with a single encrypted value."""
    return {"all.yml": vault(SECRET, folder, "encrypt_string", "--stdin-name", "munge_key")}


def in_a_file(folder: Path) -> dict[str, str]:
    """Return a fully encrypted variables file, and the option that refers to one of its variables."""
    closed = vault(f"vault_munge_key: {SECRET}\n", folder, "encrypt", "--output", "-")
    return {"vault.yml": closed, "all.yml": 'munge_key: "{{ vault_munge_key }}"\n'}


def by_a_program(folder: Path) -> dict[str, str]:
    """Return variables that read the secret from a program, as with age, sops and vault."""
    program = folder / "decrypts"
    program.write_text(f'#!/bin/sh\n[ "$1" = munge ] && echo {SECRET}\n')
    program.chmod(0o700)
    return {"all.yml": f"munge_key: \"{{{{ lookup('ansible.builtin.pipe', '{program} munge') }}}}\"\n"}


@pytest.mark.parametrize("kept", [inline, in_a_file, by_a_program])
def test_external_secret_is_used_and_not_generated_missed_or_replaced(kept: object, tmp_path: Path) -> None:
    assert callable(kept)
    variables = tmp_path / "inventory" / "group_vars" / "all"
    variables.mkdir(parents=True)
    for name, text in kept(tmp_path).items():
        (variables / name).write_text(text)
        assert name != "vault.yml" or SECRET not in text
    (tmp_path / "inventory" / "hosts.yml").write_text("all: {hosts: {localhost: {}}}\n")
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "password").write_text(PASSWORD)
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "inventory", "play.yml"]
    done = subprocess.run(
        [*command, "--vault-password-file", str(tmp_path / "password")],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | ANSIBLE | {"ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer, _ = json.JSONDecoder().raw_decode(done.stdout.partition("ANSWER")[2])
    assert answer == [SECRET, [], ["munge_key"]]
    assert not (tmp_path / "secrets").exists()
