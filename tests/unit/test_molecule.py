"""What scenarios of molecule owe: one shared base, proofs of what they converge, and every role in one of them."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
SELECTION = runpy.run_path(str(TOP / "tests" / "selection.py"))
ROLES = set(SELECTION["roles"]())
PROOFS: dict[Path, list[str]] = SELECTION["proofs"]()
SHARED = TOP / "molecule" / "shared"
SCENARIOS = sorted(path for path in (TOP / "molecule").iterdir() if path != SHARED)
FEATURES = {"base", "containers", "monitoring", "nvidia", "slurm", "storage", "validation"}
# What a scenario may say itself; all else comes from the base.
OWN = {
    "ansible.env.BUSBAR_MACHINES_KIND",
    "ansible.env.BUSBAR_MACHINES_OPTIONS",
    "scenario.name",
    "verifier.additional_files_or_dirs",
    "verifier.options.k",
    "verifier.options.m",
}


def load(path: Path) -> Any:  # noqa: ANN401 - YAML is what it is
    return yaml.safe_load(path.read_text(encoding="utf-8"))


BASE = load(TOP / ".config" / "molecule" / "config.yml")


def keys(data: dict[str, Any]) -> set[str]:
    """The dotted names of all values."""
    return {
        f"{name}.{rest}" if rest else name
        for name, value in data.items()
        for rest in (keys(value) if isinstance(value, dict) else [""])
    }


def proofs_of(scenario: Path) -> list[Path]:
    """The test files that a scenario runs; each must be there."""
    named = load(scenario / "molecule.yml")["verifier"]["additional_files_or_dirs"]
    return [(scenario / name).resolve(strict=True) for name in named]


def converged(playbook: Path) -> set[str]:
    """The roles that a playbook brings in: by itself, by playbooks and tasks that it imports, by their roles."""
    found: set[str] = set()
    todo, seen = [playbook.resolve(strict=True)], set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"(?:role|name): busbar\.cluster\.(\w+)", text):
            found.add(name)
            todo += (TOP / "roles" / name / "tasks").glob("*.yml")
        for name in re.findall(r"import_playbook: busbar\.cluster\.(\w+)", text):
            todo.append((TOP / "playbooks" / f"{name}.yml").resolve(strict=True))
        for name in re.findall(r"import_(?:playbook|tasks): (\S+\.yml)", text):
            todo.append((path.parent / name).resolve(strict=True))
    return found


def test_every_feature_has_a_scenario() -> None:
    assert {path.name for path in SCENARIOS} >= FEATURES


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_differs_from_the_base_in_few_things(scenario: Path) -> None:
    assert {path.name for path in scenario.iterdir()} == {"molecule.yml", "converge.yml"}
    said = load(scenario / "molecule.yml")
    assert keys(said) <= OWN, "this belongs into .config/molecule/config.yml"
    assert said["scenario"]["name"] == scenario.name


def test_the_base_creates_proves_a_second_run_verifies_and_removes() -> None:
    assert BASE["scenario"]["test_sequence"] == ["destroy", "create", "converge", "idempotence", "verify", "destroy"]
    for action in ("create", "destroy"):
        playbook = BASE["ansible"]["playbooks"][action]
        assert all((scenario / playbook).resolve(strict=True).parent == SHARED for scenario in SCENARIOS)
    name = BASE["ansible"]["env"]["BUSBAR_MACHINES_NAME"]
    assert name == "molecule-${BUSBAR_CHECKOUT}-${MOLECULE_SCENARIO_NAME}"
    assert f"/.sandbox/{name}/inventory" in BASE["ansible"]["executor"]["args"]["ansible_playbook"][0]
    assert BASE["verifier"]["env"] == {"BUSBAR_TEST_SANDBOX": name, "BUSBAR_TEST_VMS": name}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_proves_roles_that_it_converges_and_no_others(scenario: Path) -> None:
    files = proofs_of(scenario)
    assert files
    for path in files:
        assert PROOFS[path], f"{path.name} proves no role"
        assert set(PROOFS[path]) <= converged(scenario / "converge.yml"), f"{path.name} proves what is not converged"


@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_role_is_converged_and_proved_by_a_scenario(role: str) -> None:
    assert [
        scenario.name
        for scenario in SCENARIOS
        if role in converged(scenario / "converge.yml") and any(role in PROOFS[path] for path in proofs_of(scenario))
    ], f"no scenario of molecule/ converges {role} and runs a test that proves it"


def test_setup_names_the_checkout_for_molecule(tmp_path: Path) -> None:
    """Two checkouts have machines of different names, and one always those of the same name."""
    script = (TOP / "scripts" / "setup").read_text(encoding="utf-8")
    (function,) = re.findall(r"^name_checkout\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)
    names = []
    for folder in ("one", "two", "one"):
        here = tmp_path / folder
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        subprocess.run(["bash", "-ec", f"here='{here}'\n{function}\nname_checkout"], check=True)
        names.append(load(here / ".env.yml")["BUSBAR_CHECKOUT"])
    assert names[0] == names[2] != names[1]
    assert all(re.fullmatch(r"[0-9a-f]{8}", name) for name in names)
    longest = max(len(path.name) for path in SCENARIOS)
    assert len("molecule--") + len(names[0]) + longest <= 32, "names of sandboxes have 32 characters"
