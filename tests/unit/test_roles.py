"""Rules for roles: each option is declared once and documented once."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (TOP / "roles").iterdir() if path.is_dir())


@lru_cache
def load(path: Path) -> Any:  # noqa: ANN401 - YAML has no fixed type
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options(role: str) -> dict[str, Any]:
    specs = load(TOP / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]
    # The role site has no tasks that could validate its options.
    return dict(specs["defaults" if role == "site" else "main"]["options"])


@pytest.mark.parametrize("role", ROLES)
def test_defaults_match_the_argument_specification(role: str) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert documented == (load(TOP / "roles" / role / "defaults" / "main.yml") or {})


@pytest.mark.parametrize("role", ROLES)
def test_every_option_has_a_description_and_the_prefix_of_its_role(role: str) -> None:
    for name, option in options(role).items():
        assert option.get("description"), f"{role}: {name} has no description"
        assert option.get("type"), f"{role}: {name} has no type"
        assert role == "site" or name.startswith(f"{role}_"), f"{role}: {name} does not begin with {role}_"


@pytest.mark.parametrize("role", sorted({*ROLES} - {"site"}))
def test_every_role_has_the_defaults_of_the_site(role: str) -> None:
    """A role works in any play; a role that sets these itself would override the shared values."""
    assert {"role": "busbar.cluster.site"} in load(TOP / "roles" / role / "meta" / "main.yml")["dependencies"]
    assert not {*options("site")} & {*options(role)}


@pytest.mark.parametrize(
    "playbook",
    sorted([*TOP.glob("playbooks/*.yml"), *TOP.glob("playbooks/rotate/*.yml")]),
    ids=lambda path: str(path.relative_to(TOP / "playbooks").with_suffix("")),
)
def test_every_play_has_the_defaults_of_the_site(playbook: Path) -> None:
    """Expressions of plays read them, and without them the host keys are not trusted."""
    for play in load(playbook):
        if "hosts" not in play:
            continue
        imported = any("ansible.builtin.import_role" in task for task in play.get("tasks", []))
        assert play.get("roles") or imported, play["name"]


def test_prometheus_and_exporters_have_the_same_default_ports() -> None:
    """Defaults of a role are not in the hostvars of other hosts, so both roles declare the port."""
    for job in options("site")["monitoring_jobs"]["default"].values():
        role = job["exporter"] if job["exporter"] in ROLES else job["exporter"].partition("_")[0]
        if role in ROLES:
            spec = options(role)
            assert job["port"] == spec[f"{job['exporter']}_port"]["default"]
            assert {*job.get("source", [])} <= {f"{job['exporter']}_source", "dcgm_source"}
            assert job.get("source_default") in {None, spec[f"{job['exporter']}_source"]["default"]}


@pytest.mark.parametrize("role", ROLES)
def test_facts_cannot_select_paths_on_the_provisioning_host(role: str) -> None:
    """The host controls facts such as os_family: they may select a file of vars/ and no other file."""
    for path in (TOP / "roles" / role / "tasks").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        chosen = re.findall(r"\{\{([^}]*)\}\}\.yml", text)
        assert "include_vars" not in text or chosen, f"{path}: which file is that?"
        for expression in chosen:
            assert expression.rstrip().endswith("| basename"), f"{path}: {expression} may name any file"


@pytest.mark.parametrize("role", ROLES)
def test_role_reads_no_file_of_another_role_by_path(role: str) -> None:
    """A shared file is used through a task of the role that owns it, or through a plugin."""
    for path in (TOP / "roles" / role).rglob("*"):
        if path.is_file() and path.suffix in {".yml", ".j2"}:
            assert not re.search(r"(role_path|playbook_dir)[^\n]*\.\./", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("role", ROLES)
def test_reported_problems_are_not_hidden(role: str) -> None:
    tasks = [task for path in (TOP / "roles" / role).glob("tasks/*.yml") for task in load(path) or []]
    assert [task["name"] for task in tasks if "busbar.cluster.refuse" in task and "no_log" in task] == []
