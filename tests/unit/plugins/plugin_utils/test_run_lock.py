"""Tests of the lock of an inventory: its holder, and stale locks."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import (
    Holder,
    LockedError,
    RunLock,
    lock_paths,
    needs_no_lock,
    other_run,
    refuse_if_locked,
)

TOP = Path(__file__).resolve().parents[4]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return the directory of an inventory."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.yml").write_text("all: {}\n")
    return folder


def test_lock_is_next_to_the_inventory_for_any_path_to_it(inventory: Path, tmp_path: Path) -> None:
    expected = [tmp_path / "inventory.lock"]
    (tmp_path / "link").symlink_to("inventory")
    assert lock_paths([str(inventory)]) == lock_paths([str(inventory / "hosts.yml")]) == expected
    assert lock_paths([str(tmp_path / "link"), str(inventory)]) == expected
    assert lock_paths(["gpu1,gpu2,", str(tmp_path / "none")]) == []
    (tmp_path / "other").mkdir()
    assert lock_paths([str(tmp_path / "other")]) != expected


def test_second_holder_is_refused_until_the_first_releases_the_lock(inventory: Path) -> None:
    (path,) = lock_paths([str(inventory)])
    first = RunLock(path)
    assert first.take("busbar provision site") is None
    said = json.loads(path.read_text())
    assert (said["pid"], said["command"]) == (os.getpid(), "busbar provision site")
    who = rf"busbar provision site, started by .* \(pid {os.getpid()}\), since 20"
    with pytest.raises(LockedError, match=who):
        RunLock(path).take("other")
    with pytest.raises(LockedError, match=who):
        refuse_if_locked([str(inventory)])
    assert json.loads(path.read_text()) == said
    first.release()
    refuse_if_locked([str(inventory)])
    second = RunLock(path)
    assert second.take("other") is None
    second.release()


def test_a_user_who_can_only_read_the_lock_sees_that_it_is_held(
    inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = lock_paths([str(inventory)])
    first = RunLock(path)
    first.take("x")
    opened = os.open

    # Root may write every file.
    def readable(name: Any, flags: int, *more: int) -> int:  # noqa: ANN401
        if name == path and flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(13, "Permission denied", str(name))
        return opened(name, flags, *more)

    monkeypatch.setattr(os, "open", readable)
    with pytest.raises(LockedError):
        refuse_if_locked([str(inventory)])
    first.release()
    refuse_if_locked([str(inventory)])


def test_forked_process_does_not_release_the_lock(inventory: Path) -> None:
    (path,) = lock_paths([str(inventory)])
    lock = RunLock(path)
    lock.take("x")
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(LockedError):
        RunLock(path).take("y")
    lock.release()


def test_lock_of_a_killed_local_run_is_stale(inventory: Path) -> None:
    (path,) = lock_paths([str(inventory)])
    script = (
        "import sys, time; from pathlib import Path\n"
        "from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import RunLock\n"
        "RunLock(Path(sys.argv[1])).take('killed'); print('held', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TOP / ".collections")},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=rf"killed, started by .*\(pid {process.pid}\)"):
            refuse_if_locked([str(inventory)])
        process.kill()
        process.wait()
    refuse_if_locked([str(inventory)])
    left = RunLock(path).take("next")
    assert left is not None
    assert (left.command, left.pid) == ("killed", process.pid)


def test_lock_of_another_host_is_reported_with_the_remedy(inventory: Path) -> None:
    (path,) = lock_paths([str(inventory)])
    there = Holder("prov2", "bob", 7, time.time() - 7 * 3600, "busbar validate\x1b[2J\nVerdict: PASS")
    path.write_text(json.dumps(dataclasses.asdict(there)))
    with pytest.raises(LockedError) as caught:
        RunLock(path).take("x")
    said = str(caught.value)
    assert "started by bob on prov2 (pid 7)" in said
    assert "(7 h)" in said
    assert said.endswith(f"rm {path}")
    assert said.isprintable()
    with pytest.raises(LockedError, match="on prov2"):
        refuse_if_locked([str(inventory)])
    assert json.loads(path.read_text())["host"] == "prov2"
    path.unlink()
    RunLock(path).take("x")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"host": 1, "pid": "x"}'])
def test_invalid_lock_file_is_not_a_lock(inventory: Path, text: str) -> None:
    (path,) = lock_paths([str(inventory)])
    path.write_text(text)
    assert RunLock(path).take("x") is None


def test_symbolic_link_is_not_followed(inventory: Path, tmp_path: Path) -> None:
    (path,) = lock_paths([str(inventory)])
    (tmp_path / "precious").write_text("kept")
    path.symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        RunLock(path).take("x")
    assert (tmp_path / "precious").read_text() == "kept"


def test_read_only_playbooks_need_no_lock(tmp_path: Path) -> None:
    harmless = {path.stem for path in (TOP / "playbooks").glob("*.yml") if needs_no_lock(path)}
    assert harmless == {"preflight", "describe", "health"}
    assert not needs_no_lock(tmp_path / "preflight.yml")


@pytest.mark.parametrize(
    ("playbook", "tags", "lockless"),
    [
        ("user", ["elevate"], True),
        ("user", ["elevate,users"], False),
        ("user", ["elevate", "users"], False),
        ("user", [], False),
        ("backup", ["backup_verify"], True),
        ("backup", ["elevate"], False),
        ("site", ["elevate"], False),
    ],
)
def test_read_only_tags_need_no_lock(playbook: str, tags: list[str], *, lockless: bool) -> None:
    assert needs_no_lock(TOP / f"playbooks/{playbook}.yml", tags) is lockless


def test_recorded_run_is_active_while_its_process_exists() -> None:
    mine = dataclasses.asdict(Holder.here())
    assert other_run(None) == other_run(mine) == ""
    script = (
        "import dataclasses, json, time\n"
        "from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import Holder\n"
        "print(json.dumps(dataclasses.asdict(Holder.here())), flush=True); time.sleep(60)"
    )
    path = {**os.environ, "PYTHONPATH": str(TOP / ".collections")}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=path) as process:
        assert process.stdout is not None
        other = json.loads(process.stdout.readline())
        assert f"(pid {process.pid})" in other_run(other)
        # Another process has this PID now.
        assert other_run(other | {"began": "another boot 1"}) == ""
        process.kill()
    assert other_run(other) == ""
    assert "cannot be checked from" in other_run(mine | {"host": "elsewhere"})
