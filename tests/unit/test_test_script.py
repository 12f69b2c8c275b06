"""The order of things in scripts/test: what runs, what makes it fail, and what it leaves.

Pytest, busbar and the linters are stand-ins that write down how they were called; the script is the real one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

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
"busbar: sandbox down --name "* | "busbar: vm down --name "*) rm -r .sandbox/"$4" ;;
esac
"""
# What python runs besides pytest is the real selection of files.
REAL = 'case "$1" in *selection.py) exec {python} "$@" ;; esac'
SCENARIOS = sorted(path.parent.name for path in TOP.glob("molecule/*/molecule.yml"))
NAME, OTHER = "test-mine", "test-mine-else"


class Script:
    """A checkout with nothing in it but the script, the test files and stand-ins for what it calls."""

    def __init__(self, top: Path) -> None:
        """Make the checkout."""
        self.top, self.log = top, top / "log"
        for folder in ("scripts", ".venv/bin", ".sandbox"):
            (top / folder).mkdir(parents=True)
        shutil.copy(TOP / "scripts" / "test", top / "scripts")
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
        """Start the script; `fail` and `slow` are shell patterns of the call that is to fail, or not to end."""
        self.log.unlink(missing_ok=True)
        for name, place in {
            "python": ".venv/bin",
            "busbar": ".venv/bin",
            "molecule": ".venv/bin",
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
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """What was called, in order."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def pytests(self, folder: str) -> list[str]:
        """The calls of pytest for a folder."""
        return [call for call in self.calls if "pytest" in call and folder in call]

    @property
    def scenarios(self) -> list[str]:
        """The scenarios of Molecule that ran."""
        return [call.removeprefix("molecule: test -s ") for call in self.calls if call.startswith("molecule: test ")]

    @property
    def standing(self) -> list[str]:
        """The sandboxes and machines that stand."""
        return sorted(path.name for path in (self.top / ".sandbox").iterdir())


def until(true: Callable[[], bool]) -> None:
    """Wait for something that happens at once, on a machine that may be busy."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "checkout")


def test_the_short_run_has_all_kinds_of_tests_and_leaves_nothing(script: Script) -> None:
    done = script.run(BUSBAR_TEST_SCENARIO="slurm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert script.calls[0] == "setup: --sandbox --vm --test"
    for part in ("lint: ", "python: -m pytest -q tests/unit", "python: -m pytest -q tests/browser"):
        assert part in script.calls
    (cluster,) = script.pytests("tests/sandbox")
    (machines,) = script.pytests("tests/vm")
    assert " -m core " in cluster
    assert " -m core " in machines
    assert "tests/sandbox/test_0_first_runs.py" in cluster
    assert " -n " not in cluster
    assert script.standing == []


@pytest.mark.parametrize(("cores", "waits"), [(2, True), (4, False)])
def test_with_few_cores_emulated_machines_come_after_the_unit_tests(script: Script, cores: int, *, waits: bool) -> None:
    child = script.start(cores=cores, slow="*pytest*tests/unit*", BUSBAR_TEST_SCENARIO="slurm")
    try:
        until(lambda: Path(f"{script.log}.slow").exists() and script.pytests("tests/sandbox") != [])
        if not waits:
            until(lambda: script.pytests("tests/vm") != [])
        assert (script.pytests("tests/vm") == []) is waits
    finally:
        child.terminate()
        child.communicate(timeout=60)


@pytest.mark.parametrize("slow", ["*pytest*tests/vm*", "*pytest*tests/sandbox*"])
def test_with_few_cores_the_scenario_follows_the_tests_that_end_first(script: Script, slow: str) -> None:
    child = script.start(slow=slow, BUSBAR_TEST_SCENARIO="slurm")
    note = script.log.with_name("log.slow")
    try:
        until(lambda: note.exists() and script.scenarios == ["slurm"])
    finally:
        until(lambda: note.exists() and bool(note.read_text(encoding="utf-8").strip()))
        os.kill(int(note.read_text(encoding="utf-8")), signal.SIGTERM)
        child.communicate(timeout=60)
    assert script.pytests("tests/vm")
    assert script.scenarios == ["slurm"]


def test_the_whole_has_what_judges_a_time_alone_at_the_end(script: Script) -> None:
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


def test_the_other_releases_are_tested_alone(script: Script) -> None:
    done = script.run("releases")
    assert done.returncode == 0, done.stdout + done.stderr
    (only,) = [call for call in script.calls if "pytest" in call]
    assert only.endswith("-m not rate tests/sandbox/test_provisioning_host.py")
    assert script.standing == []


def test_real_programs_have_a_sandbox_of_their_own_that_is_removed(script: Script) -> None:
    made = STAND_IN.replace(
        "*no-such-mark*)", '*tests/real*) mkdir -p .sandbox/"$BUSBAR_TEST_SANDBOX" ;;\n*no-such-mark*)'
    )
    assert made != STAND_IN
    done = script.run("real", BUSBAR_TEST_SANDBOX=NAME, stand_in=made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [call for call in script.calls if "pytest" in call] == ["python: -m pytest -v --durations=15 tests/real"]
    assert f"busbar: sandbox down --name {NAME}-real" in script.calls
    assert script.standing == []


def test_three_parts_are_the_whole_and_the_first_has_the_unit_tests(script: Script) -> None:
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


def test_a_role_has_its_own_tests_alone(script: Script) -> None:
    done = script.run("role", "fail2ban")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(call.endswith(" tests/sandbox/test_fail2ban.py") for call in script.pytests("tests/"))
    assert "python: -m pytest -q tests/unit" not in script.calls
    assert script.standing == []


def test_what_stands_is_used_and_left(script: Script) -> None:
    for name in (NAME, OTHER):
        (script.top / ".sandbox" / name).mkdir()
    done = script.run("role", "munge", BUSBAR_TEST_SANDBOX=NAME)
    assert done.returncode == 0, done.stdout + done.stderr
    assert script.standing == [NAME, OTHER]
    assert not [call for call in script.calls if call.startswith("busbar: ")]


def test_machines_are_kept_when_asked(script: Script) -> None:
    assert script.run("role", "--keep", "nfs_server", BUSBAR_TEST_SANDBOX=NAME).returncode == 0
    assert script.standing == [f"{NAME}-vm"]


@pytest.mark.parametrize("mode", ["core", "full"])
def test_a_sandbox_that_somebody_named_is_never_removed(script: Script, mode: str) -> None:
    (script.top / ".sandbox" / NAME).mkdir()
    done = script.run(mode, BUSBAR_TEST_SANDBOX=NAME)
    assert done.returncode == 2
    assert f"these stand already: {NAME}; take them down" in done.stderr
    assert script.standing == [NAME]


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        ("*pytest*tests/sandbox*", "tests on the sandbox"),
        ("*pytest*tests/vm*", "tests on virtual machines"),
        ("lint:*", "lint and types"),
        ("*tests/unit", "unit tests"),
        ("*tests/browser", "browser tests"),
        ("molecule:*", "molecule scenario base"),
    ],
)
def test_what_fails_is_named_at_the_end_and_the_rest_runs(script: Script, fail: str, said: str) -> None:
    done = script.run(fail=fail, BUSBAR_TEST_SCENARIO="base")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"failed: {said}"
    broken = fail.partition(":")[0]
    assert f"{broken if broken in ('lint', 'molecule') else 'python'} broke" in done.stdout
    assert script.pytests("tests/sandbox")
    assert script.pytests("tests/vm")
    assert script.standing == []


@pytest.mark.parametrize(
    ("fail", "said"), [("lint:*", "lint and types"), ("*tests/unit", "unit tests"), ("*tests/browser", "browser tests")]
)
def test_the_fast_run_makes_no_machine_and_names_what_fails(script: Script, fail: str, said: str) -> None:
    assert script.run("fast").returncode == 0
    assert not script.pytests("tests/sandbox")
    done = script.run("fast", fail=fail)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"failed: {said}")


def git(folder: Path, *arguments: str) -> str:
    """Run git as an author whom no configuration names."""
    command = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_each_commit_has_another_scenario_and_a_variable_overrides_it(script: Script) -> None:
    git(script.top, "init", "--quiet")
    seen = []
    for _ in SCENARIOS:
        git(script.top, "commit", "--quiet", "--allow-empty", "--message=next")
        assert script.run().returncode == 0
        seen += script.scenarios
    assert sorted(seen) == SCENARIOS
    assert script.run(BUSBAR_TEST_SCENARIO=seen[0]).returncode == 0
    assert script.scenarios == seen[:1]


@pytest.mark.parametrize("history", ["none", "shallow"])
def test_an_incomplete_history_lets_the_day_choose(script: Script, tmp_path: Path, history: str) -> None:
    if history == "shallow":
        git(tmp_path, "init", "--quiet", "whole")
        for _ in range(2):
            git(tmp_path / "whole", "commit", "--quiet", "--allow-empty", "--message=next")
        git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", f"file://{tmp_path}/whole", str(script.top / ".git"))
        git(script.top, "config", "core.bare", "false")
    seen = set()
    for day in range(len(SCENARIOS)):
        script.write(".venv/bin/date", f"#!/bin/sh\necho {day * 86400}\n")
        assert script.run(PATH=f"{script.top}/.venv/bin:{os.environ['PATH']}").returncode == 0
        seen |= set(script.scenarios)
    assert seen == set(SCENARIOS)


def test_the_whole_has_all_scenarios_each_in_one_part(script: Script) -> None:
    assert script.run("full", BUSBAR_TEST_SCENARIO="base").returncode == 0
    assert script.scenarios == SCENARIOS
    assert script.calls.index(f"molecule: test -s {SCENARIOS[-1]}") < script.calls.index(script.pytests(" rate ")[-1])
    seen: list[str] = []
    for number in (1, 2, 3):
        assert script.run("full", "--part", f"{number}/3").returncode == 0
        seen += script.scenarios
    assert sorted(seen) == SCENARIOS


@pytest.mark.parametrize("scenario", ["slurm", "storage"])
def test_files_of_the_scenario_run_in_it_alone(script: Script, scenario: str) -> None:
    assert script.run(BUSBAR_TEST_SCENARIO=scenario).returncode == 0
    own = re.findall(r"tests/\w+/test_\w+\.py", (TOP / "molecule" / scenario / "molecule.yml").read_text())
    called = " ".join(script.pytests("tests/sandbox") + script.pytests("tests/vm")).split()
    assert own
    assert not set(own) & set(called)
    assert "tests/sandbox/test_users.py" in called


def test_a_scenario_that_is_unknown_is_refused_before_anything_runs(script: Script) -> None:
    done = script.run(BUSBAR_TEST_SCENARIO="slrum")
    assert done.returncode == 2
    assert "BUSBAR_TEST_SCENARIO: no scenario slrum; choose one of base containers" in done.stderr
    assert not script.log.exists()


def test_the_machines_of_a_scenario_go_with_the_script(script: Script) -> None:
    child = script.start(slow="molecule:?test*", BUSBAR_TEST_SCENARIO="slurm")
    until(lambda: Path(f"{script.log}.slow").exists())
    child.terminate()
    child.communicate(timeout=60)
    assert script.calls[-1] == "molecule: destroy -s slurm"


@pytest.mark.parametrize("mode", ["fast", "core"])
def test_what_runs_beside_ends_with_the_script(script: Script, mode: str) -> None:
    child = script.start(mode, slow="*tests/unit")
    note = script.log.with_name("log.slow")
    until(lambda: note.exists() and bool(note.read_text(encoding="utf-8").strip()))
    child.terminate()
    child.communicate(timeout=60)
    until(lambda: not Path("/proc", note.read_text(encoding="utf-8").strip()).exists())
    assert script.standing == []


@pytest.mark.parametrize(("cores", "workers"), [(2, ""), (3, ""), (4, " -n 2 "), (6, " -n 3 "), (64, " -n 4 ")])
def test_files_run_side_by_side_where_there_are_cores(script: Script, cores: int, workers: str) -> None:
    assert script.run("core", cores=cores).returncode == 0
    (call,) = script.pytests("tests/sandbox")
    assert (f"{workers}--dist loadfile" in call) if workers else (" -n " not in call)


@pytest.mark.parametrize("words", [["third"], ["role"], ["core", "x"], ["full", "3"], ["changed", "a", "b"]])
def test_a_call_that_is_none_shows_how(script: Script, words: list[str]) -> None:
    done = script.run(*words)
    assert done.returncode == 2
    assert "scripts/test role [--keep] NAME" in done.stderr
    assert not script.log.exists()


@pytest.mark.parametrize(
    ("words", "said"), [(["role", "slrum"], "did you mean slurm?"), (["full", "--part", "3/2"], "K/N")]
)
def test_a_wrong_word_ends_it_before_anything_is_made(script: Script, words: list[str], said: str) -> None:
    done = script.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not script.pytests("tests/")
