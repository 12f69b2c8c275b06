"""Tests that unknown tags are rejected with a list of the known ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.callback.run_guard import tag_problems

TOP = Path(__file__).resolve().parents[4]
PLAYBOOKS = TOP / "playbooks"
COMMAND = re.compile(r"busbar provision (\w+)[^`\n]* --tags (\w+)")


@pytest.mark.parametrize(
    ("playbook", "wanted", "skipped"),
    [
        ("site", ["all"], []),
        ("site", ["slurm,users_access", "slurm_accounting"], ["validation", "never"]),
        ("containers", ["miniforge_install"], []),
        ("monitoring", [], ["validation"]),
        ("preflight", ["sssd", "always"], ["tagged"]),
    ],
)
def test_existing_tags_are_accepted(playbook: str, wanted: list[str], skipped: list[str]) -> None:
    assert tag_problems([PLAYBOOKS / f"{playbook}.yml"], wanted, skipped) == []


def test_unknown_tag_is_refused_with_the_tags_of_the_playbook() -> None:
    wanted, skipped = tag_problems([PLAYBOOKS / "slurm.yml"], ["slurm,slurmm"], ["validaton"])
    assert wanted.startswith("--tags slurmm: ")
    assert {"slurm_accounting", "munge"} <= set(wanted.split("its tags are ")[1].split(", "))
    assert skipped.startswith("--skip-tags validaton: ")
    (other,) = tag_problems([PLAYBOOKS / "validate.yml"], ["slurm"], [])
    assert "its tags are always, validation, " in other


def test_playbooks_of_the_site_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("[]\n")
    assert tag_problems([tmp_path / "mine.yml"], ["mine"], ["other"]) == []


def test_tags_match_the_list_of_ansible() -> None:
    listed = subprocess.run(
        ["ansible-playbook", "-i", "gpu1,", PLAYBOOKS / "containers.yml", "--list-tags"],
        cwd=TOP, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    tags = {tag for line in re.findall(r"TASK TAGS: \[(.*)\]", listed) for tag in line.split(", ") if tag}
    assert len(tags) > 10
    assert tag_problems([PLAYBOOKS / "containers.yml"], sorted(tags), []) == []


def test_commands_in_documentation_and_messages_use_existing_tags() -> None:
    files = [*TOP.glob("docs/*.md"), *TOP.glob("scripts/busbar/**/*.py"), *TOP.glob("plugins/**/*.py")]
    files += [*TOP.glob("roles/*/README.md"), *TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/*.yml")]
    commands = {found for path in files for found in COMMAND.findall(path.read_text())}
    assert commands
    for playbook, tag in commands:
        assert tag_problems([PLAYBOOKS / f"{playbook}.yml"], [tag], []) == []
