"""Tests of the program that creates the homes of users of a directory, and of the playbook that runs it."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]


def test_playbook_recognizes_the_message_of_a_created_home() -> None:
    playbook = (TOP / "playbooks/user.yml").read_text(encoding="utf-8")
    program = (TOP / "roles/sssd/files/directory_homes").read_text(encoding="utf-8")
    condition = re.search(r"changed_when: \"'(.+)' in __user_homes\.stdout\"", playbook)
    assert condition
    assert f'echo "{condition[1]}' in program
