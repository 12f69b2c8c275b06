"""Rules for Molecule scenarios: one shared base, tests for what they converge, and every role in a scenario."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
SELECTION = runpy.run_path(str(TOP / "tests" / "selection.py"))
ROLES = set(SELECTION["roles"]())
PROOFS: dict[Path, list[str]] = SELECTION["proofs"]()
SHARED = TOP / "molecule" / "shared"
SCENARIOS = sorted(path for path in (TOP / "molecule").iterdir() if path != SHARED)
FEATURES = {"base", "containers", "monitoring", "nvidia", "slurm", "storage", "validation"}
COLLECTION = "busbar.cluster."
SHORT_RUN = re.compile(r"mark\.(?:core|scenario)\b")
# Patterns in a test that show which role it needs: it runs jobs, reads the nodes of Slurm, or names a service.
WORDS = {
    "slurm": re.compile(
        r"\b(?:srun|sbatch|salloc|sinfo|squeue|scontrol|sacct|sacctmgr|scancel|wait_idle|node_states|submit)\b"
    ),
    "node_exporter": re.compile(r"\bprometheus-node-exporter\b"),
}
# Keys that a scenario may set itself; all other keys come from the base.
OWN = {
    "ansible.env.BUSBAR_MACHINES_COMMAND",
    "ansible.env.BUSBAR_MACHINES_OPTIONS",
    "scenario.name",
    "verifier.additional_files_or_dirs",
    "verifier.options.k",
    "verifier.options.m",
}


def load(path: Path) -> Any:  # noqa: ANN401 - YAML has no fixed type
    return yaml.safe_load(path.read_text(encoding="utf-8"))


BASE = load(TOP / ".config" / "molecule" / "config.yml")


def keys(data: dict[str, Any]) -> set[str]:
    """Return the dotted names of all values."""
    return {
        f"{name}.{rest}" if rest else name
        for name, value in data.items()
        for rest in (keys(value) if isinstance(value, dict) else [""])
    }


def proofs_of(scenario: Path) -> list[Path]:
    """Return the test files that a scenario runs, and fail if one does not exist."""
    named = load(scenario / "molecule.yml")["verifier"]["additional_files_or_dirs"]
    return [(scenario / name).resolve(strict=True) for name in named]


def included(data: Any) -> Iterator[str]:  # noqa: ANN401 - YAML has no fixed type
    """Yield the roles of plays and tasks; ROLE.FILE where only one task file of a role runs."""
    if isinstance(data, list):
        for item in data:
            yield from included(item)
    elif isinstance(data, dict):
        file = data.get("tasks_from")
        for key in ("role", "name"):
            if str(data.get(key)).startswith(COLLECTION):
                yield data[key].removeprefix(COLLECTION) + (f".{file}" if file else "")
        for value in data.values():
            yield from included(value)


def imported(data: Any, folder: Path) -> Iterator[Path]:  # noqa: ANN401 - YAML has no fixed type
    """Yield the playbooks that a playbook imports."""
    for play in data:
        name = str(play.get("ansible.builtin.import_playbook", ""))
        if name.startswith(COLLECTION):
            yield (TOP / "playbooks" / f"{name.removeprefix(COLLECTION)}.yml").resolve(strict=True)
        elif name:
            yield (folder / name).resolve(strict=True)


@functools.cache
def converged(playbook: Path) -> frozenset[str]:
    """Return the roles that a playbook runs: its own, those of imported playbooks, and those included by roles."""
    found: set[str] = set()
    todo, seen = [playbook.resolve(strict=True)], set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        data = load(path) or []
        todo += imported(data, path.parent)
        for name in included(data):
            found.add(name)
            role, _, file = name.partition(".")
            todo += (TOP / "roles" / role / "tasks").glob(f"{file or '*'}.yml")
    return frozenset(found)


def names_in(node: ast.AST) -> set[str]:
    """Return the names and fixtures that a node of a test file's syntax tree uses."""
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    used |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return used | {str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)}


def core_text(path: Path) -> str:
    """Return the code of a file's core tests, with the functions, fixtures and constants of the file that they use."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined: dict[str, ast.stmt] = {}
    todo = []
    whole = any(SHORT_RUN.search(ast.unparse(mark)) for mark in SELECTION["marks"](tree))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
            said = " ".join(map(ast.unparse, node.decorator_list))
            if SHORT_RUN.search(said) or "autouse=True" in said or (whole and node.name.startswith("test_")):
                todo.append(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    texts = {}
    while todo:
        name = todo.pop()
        if name in defined and name not in texts:
            texts[name] = ast.unparse(defined[name])
            todo += names_in(defined[name])
    # Code that runs only if scontrol is installed does not need Slurm.
    return "\n".join(text for text in texts.values() if "command -v scontrol" not in text)


def needs(path: Path) -> set[str]:
    """Return the roles that a file's core tests need: by mark, by name, or by a pattern of WORDS."""
    marks = SELECTION["marks"](ast.parse(path.read_text(encoding="utf-8")))
    calls = [mark for mark in marks if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.needs"]
    found = {ast.literal_eval(word) for call in calls for word in call.args} | set(PROOFS[path])
    # A file that names a part of a role, such as dcgm.exporter, needs only that part.
    parts = {word.partition(".")[0] for word in found if "." in word}
    return (found - parts) | {role for role, words in WORDS.items() if words.search(core_text(path))}


def missing(files: list[Path], playbook: Path) -> set[str]:
    """Return the roles that the tests of these files need and the playbook does not converge."""
    roles = converged(playbook)
    return {need for path in files for need in needs(path) if not {need, need.partition(".")[0]} & roles}


def test_tests_marked_for_a_scenario_are_listed_in_one() -> None:
    listed = {file for scenario in SCENARIOS for file in proofs_of(scenario)}
    marked = {path for path in PROOFS if "mark.scenario" in path.read_text(encoding="utf-8")}
    assert marked
    assert marked <= listed


def test_every_feature_has_a_scenario() -> None:
    assert {path.name for path in SCENARIOS} >= FEATURES


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_scenario_overrides_only_permitted_keys_of_the_base(scenario: Path) -> None:
    assert {path.name for path in scenario.iterdir()} == {"molecule.yml", "converge.yml"}
    said = load(scenario / "molecule.yml")
    assert keys(said) <= OWN, "this belongs into .config/molecule/config.yml"
    assert said["scenario"]["name"] == scenario.name


def test_base_runs_create_converge_idempotence_verify_and_destroy() -> None:
    assert BASE["scenario"]["test_sequence"] == ["destroy", "create", "converge", "idempotence", "verify", "destroy"]
    for action in ("create", "destroy"):
        playbook = BASE["ansible"]["playbooks"][action]
        assert all((scenario / playbook).resolve(strict=True).parent == SHARED for scenario in SCENARIOS)
    name = BASE["ansible"]["env"]["BUSBAR_MACHINES_NAME"]
    assert name == "molecule-${BUSBAR_CHECKOUT}-${MOLECULE_SCENARIO_NAME}"
    assert f"/.sandbox/{name}/inventory" in BASE["ansible"]["executor"]["args"]["ansible_playbook"][0]
    assert BASE["verifier"]["env"] == {"BUSBAR_TEST_SANDBOX": name, "BUSBAR_TEST_VMS": name}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_scenario_converges_every_role_that_its_tests_need(scenario: Path) -> None:
    files = proofs_of(scenario)
    assert files
    assert all(PROOFS[path] for path in files)
    assert {path.name: absent for path in files if (absent := missing([path], scenario / "converge.yml"))} == {}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_scenario_has_two_compute_nodes_if_its_tests_need_them(scenario: Path) -> None:
    needed = any(re.search(r"(?:-N ?2|--nodes=2)\b", core_text(path)) for path in proofs_of(scenario))
    options = load(scenario / "molecule.yml").get("ansible", {}).get("env", {}).get("BUSBAR_MACHINES_OPTIONS", "")
    assert not needed or "--compute 2" in options


@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_role_is_converged_and_tested_by_a_scenario(role: str) -> None:
    assert [
        scenario.name
        for scenario in SCENARIOS
        if role in converged(scenario / "converge.yml") and any(role in PROOFS[path] for path in proofs_of(scenario))
    ], f"no scenario of molecule/ converges {role} and runs a test that proves it"


def test_setup_names_the_machines_of_molecule_after_the_checkout(tmp_path: Path) -> None:
    """Names of machines differ between checkouts and are stable within one."""
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
