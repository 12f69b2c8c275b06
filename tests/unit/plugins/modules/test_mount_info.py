"""Tests of the facts about servers and mount points, with real sockets and processes."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.call_timeout import bounded
from ansible_collections.busbar.cluster.plugins.module_utils.storage import mount_state
from ansible_collections.busbar.cluster.plugins.module_utils.storage.file_servers import server_fault
from ansible_collections.busbar.cluster.plugins.module_utils.storage.mount_state import holders
from ansible_collections.busbar.cluster.plugins.modules import mount_info
from module_run import module_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def nfs(low: int, high: int) -> Callable[[bytes], bytes]:
    """Return an NFS server that supports these versions."""

    def answer(call: bytes) -> bytes:
        xid, _, _, _, version = struct.unpack_from(">5I", call, 4)
        state = [0] if low <= version <= high else [2, low, high]
        body = struct.pack(f">{5 + len(state)}I", xid, 1, 0, 0, 0, *state)
        return struct.pack(">I", 0x80000000 | len(body)) + body

    return answer


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Return a function that starts servers which answer calls in turn, or stay silent without an answer."""
    listeners = []

    def start(answer: Callable[[bytes], bytes] | None) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def work() -> None:
            kept = []
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                if answer is None:
                    kept.append(connection)
                    continue
                with connection:
                    connection.sendall(answer(connection.recv(100)))

        threading.Thread(target=work, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "version", "fault"),
    [
        (nfs(3, 4), 4, ""),
        (nfs(3, 4), 3, ""),
        (nfs(3, 3), 4, "127.0.0.1 does not serve NFS version 4, only 3 to 3"),
        (lambda _: b"SSH-2.0-OpenSSH_9.2\r\n", 4, "127.0.0.1 answers, but not as NFS"),
        (lambda _: b"", None, ""),
    ],
)
def test_answer_of_a_server_is_judged(
    serve: Callable[..., int], answer: Callable[[bytes], bytes], version: int | None, fault: str
) -> None:
    assert server_fault([("127.0.0.1", serve(answer))], version, 1) == fault


def test_silent_server_and_closed_port_time_out(serve: Callable[..., int]) -> None:
    began = time.monotonic()
    fault = server_fault([("127.0.0.1", serve(None))], 4, 2)
    assert "does not answer on TCP port" in fault
    assert "Connection refused" in server_fault([("127.0.0.1", closed_port())], 4, 2)
    assert time.monotonic() - began < 10


def test_one_responding_server_is_enough(serve: Callable[..., int]) -> None:
    servers = [("127.0.0.1", closed_port()), ("127.0.0.1", serve(lambda _: b""))]
    assert server_fault(servers, None, 1) == ""


def test_recovering_server_is_waited_for(serve: Callable[..., int]) -> None:
    answers = iter([b"\x00" * 8])
    sound = nfs(4, 4)
    port = serve(lambda call: next(answers, None) or sound(call))
    assert server_fault([("127.0.0.1", port)], 4, 10) == ""


def test_hanging_call_times_out() -> None:
    with pytest.raises(TimeoutError, match="no answer within"):
        bounded(lambda: time.sleep(5), 0.1)
    with pytest.raises(FileNotFoundError):
        bounded(lambda: os.stat("/no/such/file"), 5)  # noqa: PTH116 - any call that fails
    assert bounded(lambda: 7, 5) == 7


def test_processes_using_a_directory_are_listed(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as process:
        try:
            assert holders(str(tmp_path)) == [{"pid": process.pid, "command": "sleep"}]
        finally:
            process.terminate()
    assert holders(str(tmp_path)) == []


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run the module with mounts, in check mode unless `check` is false."""

    def go(*, check: bool = True, **args: object) -> dict[str, Any]:
        given = {"host": "gpu1", "key": "nfs_client_mounts", "boot_wait_s": 60, **args, "_ansible_check_mode": check}
        return module_result(mount_info, capsys, **given)

    return go


def ask(capsys: pytest.CaptureFixture[str], **args: object) -> dict[str, Any]:
    """Run the module with these options."""
    return module_result(mount_info, capsys, host="gpu1", key="nfs_client_mounts", **args)


def entry(path: Path, port: int, *options: str) -> dict[str, Any]:
    return {"type": "nfs", "src": "127.0.0.1:/shared", "path": str(path), "options": [f"port={port}", *options]}


def words(result: dict[str, Any]) -> list[str]:
    return [f"{problem.get('about')} {problem['key']}: {problem['problem']}" for problem in result["problems"]]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a fake /proc of a host with the Lustre client, whose servers answer."""
    folder, programs = tmp_path / "proc", tmp_path / "bin"
    (folder / "self").mkdir(parents=True)
    programs.mkdir()
    (folder / "self/mountinfo").write_text("1 0 0:1 / / rw - ext4 /dev/sda1 rw\n")
    (folder / "filesystems").write_text("nodev\tlustre\n")
    (programs / "mount.lustre").write_text("#!/bin/sh\n")
    (programs / "systemd-escape").write_text('#!/bin/sh\necho "automount of $3"\n')
    for each in programs.iterdir():
        each.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(mount_state, "PROC", folder)
    monkeypatch.setattr(mount_state, "server_fault", lambda *_: "")
    return folder


def test_plan_has_the_fstab_fields_and_the_mount_state(proc: Path, run: Callable[..., dict[str, Any]]) -> None:
    place = str(proc.parent / "data")
    lustre = {"type": "lustre", "src": "10.0.0.1@tcp:/fs", "path": place, "options": ["flock"]}
    (planned,) = run(mounts=[lustre], check=False)["plan"]
    assert planned == {
        "path": place,
        "src": "10.0.0.1@tcp:/fs",
        "fstype": "lustre",
        "opts": "flock,_netdev,x-systemd.mount-timeout=60s",
        "automount": False,
        "found": "free",
        "unit": "",
    }
    (planned,) = run(mounts=[{**lustre, "automount": True}])["plan"]
    assert (planned["unit"], planned["automount"]) == (f"automount of {place}", True)
    (proc.parent / "data").mkdir()
    with (proc / "self/mountinfo").open("a") as stream:
        stream.write(f"2 1 0:2 / {place} rw - lustre 10.0.0.1@tcp:/fs rw\n")
    told = run(mounts=[lustre], check=False)
    assert (told["changed"], told["plan"][0]["found"]) == (False, "mounted")


def test_missing_client_package_is_named(proc: Path, run: Callable[..., dict[str, Any]]) -> None:
    beegfs = {"type": "beegfs", "src": "beegfs_nodev", "path": str(proc.parent / "b")}
    told = run(mounts=[beegfs], packages=["no-such-package-of-busbar"], check=False)
    assert told["missing_packages"] == ["no-such-package-of-busbar"]
    told = run(mounts=[beegfs], check=False)
    assert told["busbar_refused"]
    assert told["msg"].startswith("Nothing was mounted:\ngpu1: nfs_client_mounts[")


def test_mounts_that_hold_homes_are_named(proc: Path, run: Callable[..., dict[str, Any]]) -> None:
    (proc / "filesystems").write_text("nodev\tnfs\n")
    shared = {"type": "nfs", "src": "127.0.0.1:/shared", "path": str(proc.parent / "shared")}
    given = {"mounts": [shared], "packages": ["no-such-package-of-busbar"]}
    assert run(**given, home_base=f"{shared['path']}/home")["home_mounts"] == [shared["path"]]
    assert run(**given, home_base="/home")["home_mounts"] == run(**given)["home_mounts"] == []


def test_all_errors_are_reported_at_once(
    tmp_path: Path, run: Callable[..., dict[str, Any]], serve: Callable[..., int]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").touch()
    (tmp_path / "link").symlink_to(tmp_path / "full")
    (tmp_path / "file").touch()
    dead = closed_port()
    given = [entry(tmp_path / name, serve(nfs(4, 4))) for name in ("full", "link", "file")]
    result = run(mounts=[*given, entry(tmp_path / "new", dead)], timeout_s=1, check=False)
    found = words(result)
    assert len(found) == 4
    assert f"nfs_client_mounts[{tmp_path}/full]: is not empty, and the mount would hide" in found[0]
    assert found[1].endswith(f"is a link to {tmp_path}/full")
    assert found[2].endswith("is not a directory")
    assert f"server nfs_client_mounts[{tmp_path}/new]: 127.0.0.1 does not answer on TCP port {dead}" in found[3]
    assert all(problem["hosts"] == ["gpu1"] and problem["remedy"] for problem in result["problems"])
    assert result["msg"].startswith("Nothing was mounted:\ngpu1: nfs_client_mounts[")
    assert not (tmp_path / "new").exists()


def test_mount_of_another_source_is_refused(run: Callable[..., dict[str, Any]]) -> None:
    result = run(mounts=[{"type": "nfs", "src": "127.0.0.1:/x", "path": "/proc"}])
    assert "expected 127.0.0.1:/x" in words(result)[0]


def test_missing_bind_mount_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, bound=["/proc/self"])["problems"] == []
    if not any(line.split()[4] == str(tmp_path.parents[-2]) for line in open("/proc/self/mountinfo")):  # noqa: PTH123, SIM115
        assert "storage_backend is bind" in words(ask(capsys, bound=[str(tmp_path)]))[0]


def test_missing_client_is_named(run: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    given = [
        {"type": "lustre", "src": "10.0.0.1@o2ib:/fs", "path": str(tmp_path / "l")},
        {"type": "weka", "src": "fs", "path": str(tmp_path / "w")},
    ]
    assert run(mounts=given, packages=["no-such-package-of-busbar"])["missing_packages"] != []
    ready = run(mounts=given)
    assert [problem["about"] for problem in ready["problems"]] == ["client", "client"]
    assert "mount.lustre" in ready["problems"][0]["problem"]
    assert "lustre-client" in ready["problems"][0]["remedy"]
    assert "WEKA" in ready["problems"][1]["remedy"]


def test_kernel_modules_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, kernel_modules=["proc", "no_such_module"])["kernel"] == {"proc": True, "no_such_module": False}
