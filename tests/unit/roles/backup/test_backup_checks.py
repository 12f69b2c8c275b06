"""Invalid options of a backup are reported before anything is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.roles.backup.checks import check
from jinja2 import Environment

TOP = Path(__file__).resolve().parents[4]
GOOD: dict[str, Any] = {
    "host": "keeper",
    "repository": "",
    "directory": "/var/backups/busbar",
    "keep": {"daily": 14, "weekly": 0},
    "max_age": 26,
    "paths": ["/srv/licences"],
}


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"host": "", "repository": "s3:https://store/busbar"},
        {"host": "", "repository": "/mnt/backup"},
        {"host": ""},
    ],
)
def test_valid_options_have_no_problem(good: dict[str, Any]) -> None:
    assert check({**GOOD, **good}, {"known": ["ctl", "keeper"], "host": "ctl"}) == []


@pytest.mark.parametrize(
    ("declared", "expected"),
    [({}, "False"), ({"grafana_source": "none"}, "False"), ({"grafana_source": "url"}, "True")],
)
def test_grafana_is_saved_only_if_it_is_installed(declared: dict[str, str], expected: str) -> None:
    """The default equals that of the role grafana."""
    options = yaml.safe_load((TOP / "roles/backup/defaults/main.yml").read_text(encoding="utf-8"))
    known = {"inventory_hostname": "ctl", "groups": {"monitoring": ["ctl"]}, **declared}
    assert Environment(autoescape=True).from_string(options["backup_grafana"]).render(known) == expected


@pytest.mark.parametrize(
    ("bad", "key", "said"),
    [
        ({"host": "keper"}, "backup_host", "'keper' is not in the inventory"),
        ({"repository": "/mnt"}, "backup_repository", "is set, but backup_host is also set (keeper)"),
        ({"host": "", "repository": "backups"}, "backup_repository", "not an absolute path or a repository URL"),
        ({"directory": "backups"}, "backup_directory", "not an absolute path"),
        ({"keep": {"dayly": 3, "daily": 1}}, "backup_keep", "dayly is not known"),
        ({"keep": {"daily": 0}}, "backup_keep", "keeps no snapshot"),
        ({"keep": {}}, "backup_keep", "keeps no snapshot"),
        ({"keep": {"daily": "many"}}, "backup_keep", "has an invalid count"),
        ({"max_age": 0}, "backup_max_age", "found 0 h, expected more than 0"),
        ({"paths": ["etc/x", "/etc/y"]}, "backup_paths", "found relative paths (etc/x)"),
    ],
)
def test_invalid_options_are_reported(bad: dict[str, Any], key: str, said: str) -> None:
    [problem] = check({**GOOD, **bad}, {"known": ["ctl", "keeper"], "host": "ctl"})
    assert (problem["hosts"], problem["key"]) == (["ctl"], key)
    assert said in problem["problem"]
    assert problem["remedy"]
