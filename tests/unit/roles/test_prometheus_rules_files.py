"""Tests of the rule and secret files that the role prometheus writes and removes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLE = Path(__file__).resolve().parents[3] / "roles/prometheus"
RULES, SECRETS = "/etc/prometheus/rules", "/etc/prometheus/secrets"


def worked_out(name: str, there: list[str]) -> Any:  # noqa: ANN401 - what a variable of the role holds
    """Return a variable of the role on a host that has these files."""
    known: dict[str, Any] = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables = {
        **{key: trust_as_template(value) for key, value in known.items() if isinstance(value, str)},
        "__prometheus_folder": "/usr/bin",
        "__prometheus_plan": {"rules": [{"path": f"{RULES}/busbar_gpu.yml", "content": "x"}], "secrets": {}},
        "__prometheus_found": {"files": [{"path": path} for path in there]},
        "__site_monitoring_web_config": {},
    }
    return Templar(loader=DataLoader(), variables=variables).template(variables[name])


def test_undeclared_rules_are_removed() -> None:
    there = [f"{RULES}/busbar_gpu.yml", f"{RULES}/busbar_old.yml", f"{SECRETS}/job_a_password"]
    assert worked_out("__prometheus_rule_files", there) == [
        {"path": f"{RULES}/busbar_gpu.yml", "content": "x", "validate": "/usr/bin/promtool check rules %s"},
        {"path": f"{RULES}/busbar_old.yml", "state": "absent"},
    ]
    assert worked_out("__prometheus_no_longer_wanted", there) == ["/etc/prometheus/web.yml", there[2]]
