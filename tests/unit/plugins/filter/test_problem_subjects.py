"""One filter for all that is refused: each subject has its pure function, and bad input names the host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.busbar.cluster.plugins.filter.problems import DOCUMENTATION, SUBJECTS, FilterModule

TOP = Path(__file__).resolve().parents[4]
problems = FilterModule().filters()["problems"]


def test_each_subject_is_documented_and_asked_for() -> None:
    options = yaml.safe_load(DOCUMENTATION)["options"]
    assert options["subject"]["choices"] == sorted(SUBJECTS)
    said = " ".join(options["_input"]["description"])
    files = [path for folder in ("roles", "playbooks") for path in (TOP / folder).rglob("*.yml")]
    asked = {
        name
        for path in files
        for name in re.findall(r"busbar\.cluster\.problems\('(\w+)'", path.read_text(encoding="utf-8"))
    }
    assert asked == set(SUBJECTS)
    assert [name for name in SUBJECTS if f"C({name})" not in said] == []


def test_what_is_wrong_is_told() -> None:
    (found,) = problems([{"name": "a"}, {"name": "a", "lua": "x"}], "lmod_modules", host="login")[:1]
    assert found["hosts"] == ["login"]
    assert found["key"].startswith("lmod_modules")
    assert problems([], "lmod_modules", host="login") == []


def test_bad_input_names_the_host() -> None:
    with pytest.raises(AnsibleFilterError, match=r"^gpu1: 'host' is missing$"):
        problems({}, "backup", known=[], host="gpu1")


def test_an_unknown_subject_names_those_there_are() -> None:
    with pytest.raises(AnsibleFilterError, match=r"^'mistake' is not one of accounts, alertmanager, backup, "):
        problems({}, "mistake")
