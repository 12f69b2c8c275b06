"""The check of words: finds those of the dialect where they stand, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from devel import words
from devel.markdown import prose

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "text", "line", "found"),
    [
        ("docs/x.md", "a\nThe archive of its makers.\n", 2, "its makers"),
        ("docs/x.md", "It cannot be had.\n", 1, "cannot be had"),
        ("roles/x/tasks/main.yml", "---\n- name: x | Refuse what cannot be\n", 2, "Refuse what cannot be"),
        ("roles/x/tasks/main.yml", "- name: x | Enable and start it\n", 1, "it"),
        ("roles/x/tasks/main.yml", "- name: x | Look at the disks\n", 1, "Look"),
        ("roles/x/tasks/main.yml", "- fail:\n    msg: say nvidia_driver_source=x\n", 2, "say nvidia_driver_source"),
        ("plugins/x.py", 'a = 1\nb = f"{a} is no version"\n', 2, "is no version"),
    ],
)
def test_a_word_is_found_with_its_line(path: str, text: str, line: int, found: str) -> None:
    (finding,) = words.findings(path, text)
    assert (finding.line, finding.text) == (line, found)
    assert finding.instead


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/x.md", "`its makers`\n```\nsay a_b: it\n```\n"),
        ("roles/x/README.md", "<!-- BEGIN_ANSIBLE_DOCS -->\nits makers\n<!-- END_ANSIBLE_DOCS -->\n"),
        ("roles/x/tasks/main.yml", "- name: x | Restart slurmd with the new driver\n  vars: {it: 1}\n"),
        ("plugins/x.py", "its_makers = 1  # its makers\n"),
    ],
)
def test_code_and_generated_tables_are_left_alone(path: str, text: str) -> None:
    assert words.findings(path, text) == []


def test_a_file_with_such_a_word_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(words, "TOP", tmp_path)
    monkeypatch.setattr(words, "listed", lambda: ["a.md"])
    (tmp_path / "a.md").write_text("plain\nits makers\n")
    assert words.main() == 1
    assert "a.md:2: 'its makers': upstream" in capsys.readouterr().err
    (tmp_path / "a.md").write_text("plain\n")
    assert words.main() == 0


def test_pages_roles_and_programs_are_looked_at() -> None:
    assert {"README.md", "docs/gpus.md", "roles/slurm/tasks/main.yml", "roles/slurm/README.md"} <= {*words.listed()}
    assert {"playbooks/site.yml", "plugins/modules/files.py"} <= {*words.listed()}


def test_code_is_no_prose_and_lines_stay_where_they_are() -> None:
    assert prose("a `b c` d\n```\ne\n```\nf\n").splitlines() == ["a ` d", "", "", "", "f"]
