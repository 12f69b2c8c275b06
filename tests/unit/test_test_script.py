"""The order of things in scripts/test: what runs side by side, what makes it fail, and what it leaves.

Molecule, pytest and the linters are stand-ins that write down how they were called; the script is the real one.
"""

from __future__ import annotations

import os
import shutil
import string
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
STAND_IN = """\
#!/bin/sh
cluster=${{BUSBAR_TEST_SANDBOX#test-????????}}
echo "{name}${{cluster:+ on $cluster}}: $*" >>"{log}"
case "{name}$cluster: $*" in {fail}) echo "{name} broke on cluster ${{cluster:-1}}" && exit 1 ;; esac
"""
# The lanes are asked for with the real program; everything else that python would run is pytest.
PYTHON = 'case "$1" in *lanes.py) exec {python} "$@" ;; esac\n'


class Script:
    """A checkout with nothing in it but the script and stand-ins for what it calls."""

    def __init__(self, top: Path) -> None:
        """Make the checkout."""
        self.top = top
        self.log = top / "log"
        (top / "scripts").mkdir(parents=True)
        (top / ".venv" / "bin").mkdir(parents=True)
        shutil.copy(TOP / "scripts" / "test", top / "scripts")
        shutil.copytree(TOP / "tests" / "sandbox", top / "tests" / "sandbox", ignore=lambda *_: ["__pycache__"])
        (top / "tests" / "nfs").mkdir()

    def run(self, *arguments: str, fail: str = "nothing", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script; `fail` is a shell pattern of the call that is to fail."""
        self.log.unlink(missing_ok=True)
        places = {"molecule": ".venv/bin", "python": ".venv/bin", "setup": "scripts", "lint": "scripts"}
        for name, place in places.items():
            lines = STAND_IN.format(name=name, log=self.log, fail=fail).splitlines(keepends=True)
            if name == "python":
                lines.insert(1, PYTHON.format(python=shutil.which("python3")))
            path = self.top / place / name
            path.write_text("".join(lines), encoding="utf-8")
            path.chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("BUSBAR_", "MOLECULE_"))}
        command = [str(self.top / "scripts" / "test"), *arguments]
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={**kept, "BUSBAR_TEST_LANES": "2", **environment},
        )

    @property
    def calls(self) -> list[str]:
        """What was called, in order."""
        return self.log.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "checkout")


def test_two_lanes_on_a_cluster_each_and_speed_alone_at_the_end(script: Script) -> None:
    done = script.run()
    assert done.returncode == 0, done.stdout + done.stderr
    lanes = [call for call in script.calls if "not rate and not grows" in call]
    assert {call.split(":")[0] for call in lanes} == {"python", "python on -2"}
    for call in lanes:
        assert ("test_site.py" in call, "test_0_second_run.py" in call) == (" on -2" in call, " on -2" not in call)
    second = [call for call in script.calls if "on -2" in call]
    assert second == [
        *(f"molecule on -2: {action} -s cluster" for action in ("destroy", "create", "converge")),
        *(call for call in lanes if "on -2" in call),
        "molecule on -2: destroy -s cluster",
    ]
    # The image is there when the second begins; it is gone when a speed is judged.
    assert script.calls.index("molecule: create -s cluster") < script.calls.index(second[0])
    speed = next(call for call in script.calls if call.endswith("-m rate or grows tests/sandbox"))
    assert script.calls.index(second[-1]) < script.calls.index(speed)
    assert script.calls[-2:] == ["molecule: destroy -s cluster", "molecule: destroy -s nfs"]


def test_sandboxes_of_tests_own_come_after_the_virtual_machines_and_before_what_judges_a_speed(script: Script) -> None:
    done = script.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (own,) = [call for call in script.calls if call.startswith("python on -own: ")]
    assert own.endswith("-m own tests/sandbox")
    (machines,) = [call for call in script.calls if call.endswith("-m not rate tests/nfs")]
    speed = next(call for call in script.calls if call.endswith("-m rate or grows tests/sandbox"))
    assert script.calls.index(machines) < script.calls.index(own) < script.calls.index(speed)
    time = next(call for call in script.calls if call.endswith("-m rate tests/nfs"))
    assert script.calls.index(own) < script.calls.index(time)
    for call in script.calls:
        assert "not grows" not in call or "not own" in call


def test_one_lane_when_asked(script: Script) -> None:
    done = script.run(BUSBAR_TEST_LANES="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [call for call in script.calls if "on -2" in call]
    (lane,) = [call for call in script.calls if "not rate and not grows" in call]
    assert lane.endswith(" tests/sandbox")


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        ("python-2:*pytest*", "tests of the second cluster"),
        ("molecule-2:*converge*", "tests of the second cluster"),
        ("python:*'not rate and not grows'*", "tests of the cluster"),
        ("python:*'not rate tests/nfs'*", "tests in virtual machines"),
        ("python:*'rate or grows'*", "tests of speed"),
        ("python-own:*pytest*", "tests with sandboxes of their own"),
    ],
)
def test_what_fails_anywhere_is_told_and_the_rest_runs(script: Script, fail: str, said: str) -> None:
    done = script.run(fail=fail)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"failed: {said}"
    cluster = fail.partition(":")[0].lstrip(string.ascii_lowercase)
    assert f"broke on cluster {cluster or 1}" in done.stdout
    assert any("rate or grows" in call for call in script.calls)
    assert "molecule on -2: destroy -s cluster" in script.calls[6:]
    assert script.calls[-2:] == ["molecule: destroy -s cluster", "molecule: destroy -s nfs"]


def test_a_first_cluster_that_cannot_be_made_ends_it_and_both_are_removed(script: Script) -> None:
    done = script.run(fail="molecule:*converge*cluster")
    assert done.returncode != 0
    assert not any("rate or grows" in call for call in script.calls)
    assert "molecule: destroy -s cluster" in script.calls[-2:]


@pytest.mark.parametrize(("cores", "clusters"), [(2, 1), (3, 1), (4, 2), (64, 2)])
def test_few_cores_have_one_lane(script: Script, cores: int, clusters: int) -> None:
    nproc = script.top / ".venv" / "bin" / "nproc"
    nproc.write_text(f"#!/bin/sh\necho {cores}\n", encoding="utf-8")
    nproc.chmod(0o755)
    done = script.run(BUSBAR_TEST_LANES="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum("not rate and not grows" in call for call in script.calls) == clusters


def test_the_second_lane_alone(script: Script) -> None:
    done = script.run("second", BUSBAR_TEST_LANES="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(" on -2: " in call for call in script.calls)
    assert script.calls[-1] == "molecule on -2: destroy -s cluster"


def test_a_word_that_is_none_shows_how_to_call_it(script: Script) -> None:
    done = script.run("third")
    assert done.returncode == 2
    assert "scripts/test second" in done.stderr
    assert "BUSBAR_TEST_LANES=1" in done.stderr
