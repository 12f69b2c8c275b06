"""Tests of the check of the shared file system with real faults: private, read-only and full trees."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from conftest import as_json, recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

# The measured CPU cores are shared with other programs: a failed test runs again and is shown as a rerun.
pytestmark = [pytest.mark.proves("validation"), pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"])]

OPTIONS: dict[str, Any] = {
    "validation_storage_path": "/shared",
    "validation_stages": ["storage"],
    "validation_storage_size": "32M",
    "validation_storage_seconds": 2,
    "validation_storage_read_floor": 1000,
    "validation_storage_write_floor": 1000,
}
HUGE = 10**15


@pytest.fixture(scope="module", autouse=True)
def programs(sandbox: Cluster) -> None:
    """Run the role, which installs the check's programs on the nodes."""
    done = sandbox.playbook("validate.yml", "-t", "validation_install", "-e", json.dumps(OPTIONS))
    assert done.returncode == 0, done.stdout + done.stderr


def validate(sandbox: Cluster, **options: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:  # noqa: ANN401
    """Run the stage and return its output and the report."""
    sandbox.wait_idle()
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    asked = json.dumps(OPTIONS | options)
    done = sandbox.playbook("validate.yml", "-t", "validation_run", "-e", asked, timeout=300)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))


def only(report: dict[str, Any]) -> dict[str, Any]:
    """Return the only test of the report."""
    (test,) = report["tests"]
    assert (test["name"], test["stage"], test["kind"]) == ("storage", "storage", "storage")
    return dict(test)


def leftovers(sandbox: Cluster) -> str:
    """Return the files that runs left on the tree, as seen by any node."""
    return "".join(sandbox.exec(node, "ls -A /shared | grep busbar", check=False).stdout for node in sandbox.compute)


@contextlib.contextmanager
def mounted(sandbox: Cluster, node: str, command: str) -> Iterator[None]:
    """Mount something over a node's tree, visible to its jobs."""
    sandbox.exec(node, command)
    try:
        yield
    finally:
        sandbox.exec(node, "umount /shared")


def test_shared_tree_passes_a_low_floor(sandbox: Cluster) -> None:
    done, report = validate(sandbox)
    assert done.returncode == 0, done.stdout
    test = only(report)
    assert (report["verdict"], test["verdict"], test["blamed"]) == ("PASS", "PASS", [])
    rows = {row["node"]: row for row in test["storage"]["nodes"]}
    assert sorted(rows) == sorted(sandbox.compute)
    for row in rows.values():
        assert row["write"] > row["write_floor"] == 1000
        assert row["read"] > row["read_floor"] == 1000
    assert "PASS  storage on " in done.stdout
    assert leftovers(sandbox) == ""


def test_second_run_installs_nothing(sandbox: Cluster) -> None:
    done = sandbox.playbook("validate.yml", "-t", "validation_install", "-e", json.dumps(OPTIONS))
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


# With only two nodes, the wrong one cannot be determined.
@pytest.mark.grows
@pytest.mark.fault(
    "a node that sees another shared tree",
    says="sees a different tree at /shared than the others",
    heals="mount the right tree, validate again",
)
def test_private_tree_blames_its_node(sandbox: Cluster) -> None:
    node = sandbox.compute[-1]
    with mounted(sandbox, node, "mount -t tmpfs -o size=512m,mode=1777 tmpfs /shared"):
        done, report = validate(sandbox)
        left = leftovers(sandbox)
    assert done.returncode != 0
    assert report["verdict"] == "FAIL"
    assert [item["nodes"] for item in report["culprits"]] == [[node]]
    assert f"{node}: sees a different tree at /shared than the others: tmpfs tmpfs on /shared" in report["reason"]
    assert left == ""


@pytest.mark.fault(
    "a shared tree that is read-only on one node",
    says=": cannot write: …Read-only file system",
    heals="remount it read-write, validate again",
)
def test_read_only_tree_blames_its_node(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with mounted(sandbox, node, "mount --bind /shared /shared && mount -o remount,bind,ro /shared"):
        _done, report = validate(sandbox)
    assert report["verdict"] == "FAIL"
    assert [item["nodes"] for item in report["culprits"]] == [[node]]
    assert f"{node}: cannot write: " in report["reason"]
    assert "Read-only file system" in report["reason"]
    assert leftovers(sandbox) == ""


@pytest.mark.fault(
    "a shared tree that is full",
    says=": no space: ",
    heals="make room, validate again",
)
def test_full_tree_is_reported_and_blames_no_node(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with mounted(sandbox, node, "mount -t tmpfs -o size=1m tmpfs /shared"):
        _done, report = validate(sandbox)
    assert (report["verdict"], only(report)["blamed"]) == ("INCONCLUSIVE", [])
    assert re.search(rf"{node}: no space: 1\.05 MB free, [\d.]+ MB needed by all", report["reason"])


def test_insufficient_space_for_the_speed_test_is_found_before_writing(sandbox: Cluster) -> None:
    _done, report = validate(sandbox, validation_storage_size="100000G")
    assert report["verdict"] == "INCONCLUSIVE"
    assert "write not measured: no room (" in report["reason"]
    assert leftovers(sandbox) == ""


def test_speed_without_a_floor_is_inconclusive_and_correctness_passes(sandbox: Cluster) -> None:
    none = {"validation_storage_read_floor": 0, "validation_storage_write_floor": 0}
    done, report = validate(sandbox, **none)
    assert done.returncode != 0
    assert (report["verdict"], only(report)["blamed"]) == ("INCONCLUSIVE", [])
    assert "no floor is known for the speed of write and read" in report["reason"]
    _done, report = validate(sandbox, **none, validation_storage_speed=False)
    assert report["verdict"] == "PASS"


def test_unreachable_floor_blames_the_file_system(sandbox: Cluster) -> None:
    _done, report = validate(sandbox, validation_storage_write_floor=HUGE)
    assert (report["verdict"], only(report)["blamed"]) == ("FAIL", [])
    assert "all nodes, so the file system or its server is faulty: " in report["reason"]


def test_unknown_user_is_reported(sandbox: Cluster) -> None:
    _done, report = validate(sandbox, validation_user="nobody-at-all")
    assert report["verdict"] == "INCONCLUSIVE"
    assert "the controller has no user nobody-at-all" in report["reason"]


def test_cancelled_job_leaves_no_files(sandbox: Cluster) -> None:
    slow = {"validation_storage_size": "4G", "validation_storage_seconds": 60}
    _done, report = validate(sandbox, **slow, validation_test_time_limit=3)
    assert (report["verdict"], only(report)["blamed"]) == ("INCONCLUSIVE", [])
    assert "did not finish within 3 s and was cancelled" in report["reason"]
    sandbox.wait_until(lambda: leftovers(sandbox) == "", "the cancelled job left files", 40)
    for node in sandbox.compute:
        assert sandbox.exec(node, "pgrep fio", check=False).stdout == ""


def test_check_mode_and_limit(sandbox: Cluster) -> None:
    done = sandbox.playbook("validate.yml", "--check", "--diff", "-e", json.dumps(OPTIONS))
    assert done.returncode == 0, done.stdout
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    sandbox.wait_idle()
    node = sandbox.compute[0]
    options = json.dumps(OPTIONS | {"validation_partners": 1})
    done = sandbox.playbook("validate.yml", "-t", "validation_run", "--limit", node, "-e", options)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation_storage_path": ""}, "validation_storage_path: must be the path"),
        ({"validation_storage_size": "12Q"}, "validation_storage_size: '12Q' is not a valid size"),
        ({"validation_storage_seconds": 0}, "validation_storage_seconds: 0 is not a whole number, 1 or more"),
    ],
)
def test_bad_options_are_refused_before_any_job(sandbox: Cluster, options: dict[str, Any], words: str) -> None:
    done = sandbox.playbook("validate.yml", "-e", json.dumps(OPTIONS | options))
    assert done.returncode != 0
    assert words in " ".join(done.stdout.split())
