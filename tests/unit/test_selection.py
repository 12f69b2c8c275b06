"""Selection of test files: which roles each file tests, and which files a change selects."""

from __future__ import annotations

import ast
import runpy
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "tests" / "selection.py"
SELECTION = runpy.run_path(str(PROGRAM))
PROOFS = SELECTION["proofs"]()
GIT = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]


def is_core(mark: ast.expr) -> bool:
    return ast.unparse(mark) in {"pytest.mark.core", "pytest.mark.scenario"}


def has_core(path: Path) -> bool:
    """Return whether a file has a test of the short run, at least in its scenario."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return any(map(is_core, SELECTION["marks"](tree))) or any(
        is_core(mark) for function in functions for mark in function.decorator_list
    )


@pytest.mark.parametrize("role", SELECTION["roles"]())
def test_every_role_has_a_test_file_and_a_core_test(role: str) -> None:
    proving = [path for path, roles in PROOFS.items() if role in roles]
    assert proving, f'no file of tests/sandbox or tests/vm says pytest.mark.proves("{role}")'
    assert any(map(has_core, proving)), f"no test of {role} is marked core or scenario"


def test_every_mark_names_an_existing_role() -> None:
    strange = {path.name: names for path, roles in PROOFS.items() if (names := set(roles) - set(SELECTION["roles"]()))}
    assert strange == {}


def test_each_file_is_in_exactly_one_part() -> None:
    every = SELECTION["files"]([])
    parts = [SELECTION["part"](every, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(path for part in parts for path in part) == sorted(every) == sorted(PROOFS)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a checkout with two roles, their tests and their plugins."""
    files = {
        "roles/one/tasks/main.yml": "- busbar.cluster.first:\n",
        "roles/one/files/p.py": "from ansible_collections.busbar.cluster.plugins.module_utils.near.deep import y\n",
        "roles/two/tasks/main.yml": "- debug: msg={{ 1 | busbar.cluster.second }}\n",
        "plugins/modules/first.py": "from ..module_utils.shared import x\n",
        "plugins/filter/second.py": "from ansible_collections.busbar.cluster.plugins.module_utils.far.deep import y\n",
        "plugins/module_utils/shared.py": "x = 1\n",
        "plugins/module_utils/far/deep.py": "from ..shared import x\n",
        "plugins/module_utils/near/deep.py": "x = 1\n",
        "playbooks/two.yml": "- roles: [busbar.cluster.two]\n",
        "tests/fixtures/helper.py": "",
        "tests/sandbox/test_one.py": 'import helper\npytestmark = [pytest.mark.proves("one"), pytest.mark.core]\n',
        "tests/sandbox/test_whole.py": "pytestmark = pytest.mark.proves()\n",
        "tests/vm/test_two.py": 'pytestmark = pytest.mark.proves("two")\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*GIT, *command], check=True, cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("touched", "tests"),
    [
        ("roles/one/templates/new.j2", ["test_one.py"]),
        ("plugins/modules/first.py", ["test_one.py"]),
        ("plugins/filter/second.py", ["test_two.py"]),
        ("plugins/module_utils/far/deep.py", ["test_two.py"]),
        ("plugins/module_utils/near/deep.py", ["test_one.py"]),
        ("plugins/module_utils/shared.py", ["test_two.py", "test_one.py"]),
        ("playbooks/two.yml", ["test_two.py"]),
        ("tests/fixtures/helper.py", ["test_one.py"]),
        ("tests/sandbox/test_whole.py", ["test_whole.py"]),
        ("README.md", []),
    ],
)
def test_change_selects_the_tests_of_the_changed_files(tree: Path, touched: str, tests: list[str]) -> None:
    path = tree / touched
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
    assert sorted(found.name for found in SELECTION["changed"]("HEAD", tree)) == sorted(tests)
