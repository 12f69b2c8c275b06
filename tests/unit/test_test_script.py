"""Tests of scripts/test: which steps run in which order, which failures count, and what is removed.

Pytest, busbar and the linters are stand-ins that log their calls; the script is the real one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]
STAND_IN = """\
#!/bin/sh
{real}
echo "{name}: $*" >>"{log}"
case "{name}: $*" in
{fail}) echo "{name} broke" && exit 1 ;;
{slow}) echo $$ >"{log}.slow" && exec sleep 300 ;;
*no-such-mark*) exit 5 ;;
*pytest*tests/sandbox*) mkdir -p .sandbox/"$BUSBAR_TEST_SANDBOX" ;;
*pytest*tests/vm*) mkdir -p .sandbox/"$BUSBAR_TEST_VMS" ;;
"busbar: sandbox down --name "*) rm -r .sandbox/"$4" ;;
"machines: down --name "*) rm -r .sandbox/"$3" ;;
esac
"""
# The stand-in of python runs the real selection of files.
REAL = 'case "$1" in *selection.py) exec {python} "$@" ;; esac'
NAME, OTHER = "test-mine", "test-mine-else"


class Script:
    """A checkout with only the script, the test files and stand-ins for the programs that the script calls."""

    def __init__(self, top: Path) -> None:
        """Create the checkout."""
        self.top, self.log = top, top / "log"
        for folder in ("scripts", ".venv/bin", ".sandbox"):
            (top / folder).mkdir(parents=True)
        for name in ("test", "ci"):
            shutil.copy(TOP / "scripts" / name, top / "scripts")
        shutil.copytree(TOP / "scripts/busbar", top / "scripts/busbar", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(TOP / "molecule", top / "molecule")
        shutil.copytree(TOP / "tests", top / "tests", ignore=shutil.ignore_patterns("__pycache__", "unit", "browser"))
        for role in (TOP / "roles").iterdir():
            (top / "roles" / role.name).mkdir(parents=True)

    def run(self, *arguments: str, **env: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - as start
        """Run the script."""
        child = self.start(*arguments, **env)
        out, err = child.communicate(timeout=60)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def start(
        self,
        *arguments: str,
        fail: str = "nothing",
        slow: str = "nothing",
        cores: int = 2,
        stand_in: str = STAND_IN,
        **env: str,
    ) -> subprocess.Popen[str]:
        """Start the script; `fail` and `slow` are shell patterns of a call that fails or does not end."""
        self.log.unlink(missing_ok=True)
        for name, place in {
            "python": ".venv/bin",
            "busbar": ".venv/bin",
            "molecule": ".venv/bin",
            "machines": "tests/vm",
            "setup": "scripts",
            "lint": "scripts",
        }.items():
            real = REAL.format(python=sys.executable) if name == "python" else ""
            self.write(f"{place}/{name}", stand_in.format(name=name, log=self.log, fail=fail, slow=slow, real=real))
        self.write(".venv/bin/nproc", f"#!/bin/sh\necho {cores}\n")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("BUSBAR_", "PYTEST_"))}
        command = [str(self.top / "scripts" / "test"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=kept | env)

    def write(self, name: str, text: str) -> None:
        """Write a program."""
        path = self.top / name
        executable(path, text)

    @property
    def calls(self) -> list[str]:
        """Return all calls in order."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def pytests(self, folder: str) -> list[str]:
        """Return the calls of pytest for a folder."""
        return [call for call in self.calls if "pytest" in call and folder in call]

    @property
    def scenarios(self) -> list[str]:
        """Return the Molecule scenarios that ran."""
        return [call.removeprefix("molecule: test -s ") for call in self.calls if call.startswith("molecule: test ")]

    @property
    def standing(self) -> list[str]:
        """Return the existing sandboxes and machines."""
        return sorted(path.name for path in (self.top / ".sandbox").iterdir())


def until(true: Callable[[], bool]) -> None:
    """Wait up to 60 s until the condition is true; the machine may be busy."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "checkout")


def test_script_without_permission_to_change_its_priority_runs_all_tests(script: Script) -> None:
    script.write(".venv/bin/renice", "#!/bin/sh\necho Permission denied >&2; exit 1\n")
    done = script.run(BUSBAR_TEST_SCENARIO="slurm")
    assert (done.returncode, done.stderr) == (0, "")
    assert script.pytests("tests/unit")
    assert script.scenarios == ["slurm"]


def test_short_run_has_all_kinds_of_tests_and_removes_its_machines(script: Script) -> None:
    done = script.run(BUSBAR_TEST_SCENARIO="slurm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert script.calls[0] == "setup: --sandbox --vm --test"
    for part in ("lint: ", "python: -m pytest -q tests/unit", "python: -m pytest -q tests/browser"):
        assert part in script.calls
    (cluster,) = script.pytests("tests/sandbox")
    assert " -m core " in cluster
    assert not script.pytests("tests/vm")
    assert "tests/sandbox/test_0_first_runs.py" in cluster
    assert " -n " not in cluster
    assert script.standing == []


def test_short_run_has_a_part_of_the_slow_unit_tests_and_full_run_has_all(script: Script) -> None:
    shown = STAND_IN.replace('{name}: $*" >>', '{name}: $* $BUSBAR_TEST_SLOW" >>')
    for mode, expected in (("core", "[1-7]/7"), ("full", "")):
        assert script.run(mode, stand_in=shown).returncode == 0
        (unit,) = script.pytests("tests/unit")
        assert re.fullmatch(f"python: -m pytest -q tests/unit {expected}", unit)


def test_each_slow_file_is_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("unit_conftest", TOP / "tests/unit/conftest.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    slow = {name: SimpleNamespace(path=Path(name), get_closest_marker=lambda _: True) for name in "abcdefghi"}
    quick = SimpleNamespace(path=Path("quick"), get_closest_marker=lambda _: None)
    seen: list[str] = []
    for number in range(1, 8):
        monkeypatch.setenv("BUSBAR_TEST_SLOW", f"{number}/7")
        items = [quick, *slow.values(), *slow.values()]
        module.pytest_collection_modifyitems(MagicMock(), items)
        assert items[0] is quick
        seen += {str(item.path) for item in items[1:]}
    assert sorted(seen) == sorted(slow)


@pytest.mark.parametrize("slow", ["*pytest*tests/unit*", "*pytest*tests/sandbox*"])
def test_with_few_cores_the_scenario_starts_when_the_first_tests_end(script: Script, slow: str) -> None:
    child = script.start(slow=slow, BUSBAR_TEST_SCENARIO="slurm")
    note = script.log.with_name("log.slow")
    try:
        until(lambda: note.exists() and script.scenarios == ["slurm"])
    finally:
        until(lambda: note.exists() and bool(note.read_text(encoding="utf-8").strip()))
        os.kill(int(note.read_text(encoding="utf-8")), signal.SIGTERM)
        child.communicate(timeout=60)
    assert script.pytests("tests/unit")
    assert script.scenarios == ["slurm"]


def test_full_run_runs_rate_tests_alone_at_the_end(script: Script) -> None:
    done = script.run("full")
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = script.pytests("tests/sandbox")
    assert " -m not rate " in first
    assert " -m rate " in last
    assert "tests/vm" in last
    assert script.calls.index(script.pytests("tests/vm")[0]) < script.calls.index(last)
    (real,) = script.pytests("tests/real")
    assert script.calls.index(last) < script.calls.index(real)
    assert script.standing == []


def test_three_parts_are_the_full_run_and_the_first_has_the_unit_tests(script: Script) -> None:
    seen: list[str] = []
    for number in (1, 2, 3):
        done = script.run("full", "--part", f"{number}/3")
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("python: -m pytest -q tests/unit" in script.calls) == (number == 1)
        seen += [word for word in script.pytests("tests/sandbox")[-1].split() if word.startswith("tests/")]
    assert (
        len(seen)
        == len(set(seen))
        == len(list(TOP.glob("tests/sandbox/test_*"))) + len(list(TOP.glob("tests/vm/test_*")))
    )


def test_role_runs_only_its_own_tests(script: Script) -> None:
    done = script.run("role", "fail2ban")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(call.endswith(" tests/sandbox/test_fail2ban.py") for call in script.pytests("tests/"))
    assert "python: -m pytest -q tests/unit" not in script.calls
    assert script.standing == []


def test_existing_sandbox_is_used_and_kept(script: Script) -> None:
    for name in (NAME, OTHER):
        (script.top / ".sandbox" / name).mkdir()
    done = script.run("role", "mariadb", BUSBAR_TEST_SANDBOX=NAME)
    assert done.returncode == 0, done.stdout + done.stderr
    assert script.standing == [NAME, OTHER]
    assert not [call for call in script.calls if call.startswith("busbar: ")]


@pytest.mark.parametrize("mode", ["core", "full"])
def test_sandbox_with_a_chosen_name_is_never_removed(script: Script, mode: str) -> None:
    (script.top / ".sandbox" / NAME).mkdir()
    done = script.run(mode, BUSBAR_TEST_SANDBOX=NAME)
    assert done.returncode == 2
    assert f"already exist: {NAME}; remove them" in done.stderr
    assert script.standing == [NAME]


@pytest.mark.parametrize(
    ("mode", "failures"),
    [
        (
            "core",
            {"*tests/unit": "unit tests", "*pytest*tests/sandbox*": "tests on the sandbox", "lint:*": "lint and types"},
        ),
        ("core", {"*tests/browser": "browser tests", "molecule:*": "molecule scenario base"}),
        ("full", {"*pytest*not rate*tests/vm*": "tests on virtual machines", "*-s base": "molecule scenario base"}),
    ],
)
def test_failures_are_listed_at_the_end_and_other_steps_run(
    script: Script, mode: str, failures: dict[str, str]
) -> None:
    done = script.run(mode, fail="|".join(key.replace(" ", "?") for key in failures), BUSBAR_TEST_SCENARIO="base")
    assert done.returncode == 1
    assert sorted(done.stderr.splitlines()) == sorted(f"failed: {each}" for each in failures.values())
    assert "broke" in done.stdout
    for folder in ("unit", "browser", "sandbox"):
        assert script.pytests(f"tests/{folder}")
    assert "base" in script.scenarios
    assert bool(script.pytests("tests/vm")) is (mode == "full")
    assert "lint: " in script.calls
    assert script.standing == []


@pytest.mark.parametrize("scenario", ["slurm", "storage"])
def test_files_of_the_scenario_run_only_in_it(script: Script, scenario: str) -> None:
    assert script.run(BUSBAR_TEST_SCENARIO=scenario).returncode == 0
    own = re.findall(r"tests/\w+/test_\w+\.py", (TOP / "molecule" / scenario / "molecule.yml").read_text())
    called = " ".join(script.pytests("tests/sandbox") + script.pytests("tests/vm")).split()
    assert own
    assert not set(own) & set(called)
    assert "tests/sandbox/test_users.py" in called


def test_unknown_scenario_is_refused_before_anything_runs(script: Script) -> None:
    done = script.run(BUSBAR_TEST_SCENARIO="slrum")
    assert done.returncode == 2
    assert "BUSBAR_TEST_SCENARIO: no scenario slrum; choose one of base containers" in done.stderr
    assert not script.log.exists()


@pytest.mark.parametrize("mode", [(), ("full",), ("role", "nfs_server"), ("fast",)])
def test_an_unknown_distribution_is_refused_before_anything_runs(script: Script, mode: tuple[str, ...]) -> None:
    done = script.run(*mode, BUSBAR_DISTRIBUTION="rocky8")
    assert done.returncode == 2
    assert 'BUSBAR_DISTRIBUTION: no distribution rocky8; choose one of ["alma9", ' in done.stderr
    assert not script.log.exists()


def test_other_distributions_skip_the_virtual_machines_of_debian_12(script: Script) -> None:
    for distribution, has_them in (("rocky9", False), ("debian12", True)):
        assert script.run("full", BUSBAR_DISTRIBUTION=distribution).returncode == 0
        assert bool(script.pytests("tests/vm")) is has_them
        assert ("storage" in script.scenarios, "slurm" in script.scenarios) == (has_them, True)
    refused = script.run(BUSBAR_DISTRIBUTION="rocky9", BUSBAR_TEST_SCENARIO="storage")
    assert (refused.returncode, "no scenario storage" in refused.stderr) == (2, True)


def test_machines_of_a_scenario_are_removed_when_the_script_is_stopped(script: Script) -> None:
    child = script.start(slow="molecule:?test*", BUSBAR_TEST_SCENARIO="slurm")
    until(lambda: Path(f"{script.log}.slow").exists())
    child.terminate()
    child.communicate(timeout=60)
    assert script.calls[-1] == "molecule: destroy -s slurm"


@pytest.mark.parametrize("mode", ["fast", "core"])
def test_background_processes_end_with_the_script(script: Script, mode: str) -> None:
    child = script.start(mode, slow="*tests/unit")
    note = script.log.with_name("log.slow")
    until(lambda: note.exists() and bool(note.read_text(encoding="utf-8").strip()))
    child.terminate()
    child.communicate(timeout=60)
    until(lambda: not Path("/proc", note.read_text(encoding="utf-8").strip()).exists())
    assert script.standing == []


@pytest.mark.parametrize(
    ("words", "said"), [(["role", "slrum"], "did you mean slurm?"), (["full", "--part", "3/2"], "K/N")]
)
def test_wrong_argument_is_refused_before_anything_is_created(script: Script, words: list[str], said: str) -> None:
    done = script.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not script.pytests("tests/")
