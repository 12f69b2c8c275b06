"""Tests of the rotation plan: replaced secrets, affected hosts, and problems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.rotation import rotation_plan

TOP = Path(__file__).resolve().parents[5]
HOSTS = ["ctl", "gpu1", "gpu2"]
KNOWN: dict[str, dict[str, Any]] = {
    "munge": {"secret": "munge.key", "option": "munge_key", "used": True, "hosts": HOSTS, "pause": "seconds"},
    "grafana": {"secret": "grafana.password", "used": False, "unused": "no Grafana", "hosts": ["mon"], "pause": ""},
    "ssh": {"secret": "ssh_ca", "used": True, "hosts": [*HOSTS, "mon"], "pause": "none"},
}
FILES = {"munge.key", "ssh_ca"}


def told(chosen: object, **changed: Any) -> list[str]:  # noqa: ANN401
    given = {"known": KNOWN, "reached": [*HOSTS, "mon"], "files": FILES, **changed}
    plan = rotation_plan(chosen, **given)
    assert plan["problems"], "nothing is refused"
    assert plan["hosts"] == {}
    assert plan["lines"] == []
    return [f"{','.join(each['hosts'])}: {each['key']}: {each['problem']}" for each in plan["problems"]]


@pytest.mark.parametrize("chosen", ["ssh,munge", ["ssh", "munge"], "ssh, munge, ssh,"])
def test_selected_secrets_are_in_rotation_order(chosen: object) -> None:
    plan = rotation_plan(chosen, KNOWN, [*HOSTS, "mon"], FILES)
    assert plan["problems"] == []
    assert plan["hosts"] == {"munge": HOSTS, "ssh": [*HOSTS, "mon"]}
    assert plan["lines"] == [
        "munge: a new munge.key, on ctl,gpu[1-2]; pause: seconds",
        "ssh: a new ssh_ca, on ctl,gpu[1-2],mon; pause: none",
    ]


@pytest.mark.parametrize("chosen", ["", [], " , "])
def test_empty_selection_lists_the_secrets(chosen: object) -> None:
    assert told(chosen) == [": rotate_secrets: no secret is selected"]
    assert "munge, grafana, ssh" in rotation_plan(chosen, KNOWN, HOSTS, FILES)["problems"][0]["remedy"]


@pytest.mark.parametrize("chosen", ["jwt", ["munge", "jwt"], {"jwt": 1}, 7, None, True])
def test_unknown_secret_is_refused(chosen: object) -> None:
    assert "is not a secret that can be rotated" in told(chosen)[0]


def test_unused_secret_is_refused_with_the_reason() -> None:
    assert told("grafana") == [": rotate_secrets: grafana: no Grafana"]
    assert told("munge", files={"ssh_ca"}) == [": rotate_secrets: munge: munge.key does not exist yet"]


def test_secret_set_by_the_inventory_is_refused() -> None:
    assert told("munge", given={"munge_key"}) == [": munge_key: the inventory sets it, so busbar cannot replace munge"]


def test_unreachable_host_is_refused() -> None:
    (problem,) = told("munge", reached=["ctl", "gpu2"])
    assert problem.startswith("gpu1: rotate_secrets: munge: not in this run (--limit) or unreachable")
    assert rotation_plan("munge", KNOWN, HOSTS, FILES)["problems"] == [], "the host of another secret may be away"


def test_rolling_rotation_can_be_prepared_in_several_runs() -> None:
    known = {"ssh": {**KNOWN["ssh"], "rolling": True}}
    assert rotation_plan("ssh", known, ["ctl"], FILES)["hosts"] == {"ssh": [*HOSTS, "mon"]}


@pytest.mark.parametrize("left", ["munge.key_next", "munge.key_previous"])
def test_interrupted_rotation_is_resumed_and_reported(left: str) -> None:
    (line,) = rotation_plan("munge", KNOWN, HOSTS, {*FILES, left})["lines"]
    assert line.startswith("munge: resumes where it stopped, on ctl,gpu[1-2]")
    lines = rotation_plan("ssh", KNOWN, [*HOSTS, "mon"], {*FILES, left})["lines"]
    assert lines[1:] == ["the rotation of munge is not finished: include munge in this run"]


def test_each_secret_is_known_to_the_preflight() -> None:
    """File, size and option match the preflight's, which another test compares with the roles."""
    known = yaml.safe_load((TOP / "playbooks/vars/rotate_secrets.yml").read_text())["__rotate_secrets_known"]
    preflight = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets_known"]
    sizes = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets"]
    for name, each in known.items():
        assert each.get("option") == preflight[each["secret"]].get("option"), name
        assert each.get("bytes", sizes[each["secret"]]) == sizes[each["secret"]], name
    # Salt and key of Grafana's database give no external access; restic's password is tied to its snapshots.
    kept = {"monitoring.salt", "grafana_secret.key", "backup.password"}
    assert {each["secret"] for each in known.values()} | kept == preflight.keys()


def test_each_secret_has_a_row_in_the_documentation() -> None:
    known = yaml.safe_load((TOP / "playbooks/vars/rotate_secrets.yml").read_text())["__rotate_secrets_known"]
    rows = re.findall(r"^\| `(\w+)` \|", (TOP / "docs/security.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [*known]
