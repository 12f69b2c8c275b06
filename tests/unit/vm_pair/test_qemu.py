"""Tests of the start of a machine, of finding its process, and of its files."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import state as sandbox_state
from vm_pair import qemu
from vm_pair.image import Image
from vm_pair.state import MACHINES, Group

if TYPE_CHECKING:
    from pathlib import Path

SERVER, CLIENT = MACHINES


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(sandbox_state, "sandbox_root", lambda: tmp_path)
    (tmp_path / "demo").mkdir()
    return Group("demo", "tcg", {"nfs1": 2201, "client1": 2202})


def test_kvm_is_not_selected_without_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "KVM", tmp_path / "kvm")
    assert qemu.choose_accelerator(Image(tmp_path)) == "tcg"


@pytest.mark.parametrize(("script", "chosen"), [("exit 0", "kvm"), ("exit 1", "tcg"), ("exec sleep 60", "tcg")])
def test_kvm_is_selected_only_after_a_kernel_ran_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, chosen: str
) -> None:
    emulator = tmp_path / "emulator"
    emulator.write_text(f"#!/bin/sh\n{script}\n")
    emulator.chmod(0o755)
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(qemu, "KVM", device)
    monkeypatch.setattr(qemu, "QEMU", str(emulator))
    monkeypatch.setattr(qemu, "KVM_PROBE_S", 1)
    assert qemu.choose_accelerator(Image(tmp_path)) == chosen


def test_disks_have_serial_numbers_and_machines_are_connected(group: Group, tmp_path: Path) -> None:
    client = " ".join(qemu.command(group, CLIENT, Image(tmp_path)))
    for serial in ("root", *CLIENT.disks):
        assert f"serial={serial}" in client
    assert "local.path=client1.wire" in client
    assert "remote.path=nfs1.wire" in client
    assert "hostfwd=tcp:127.0.0.1:2202-:22" in client
    assert "remote.path=client1.wire" in " ".join(qemu.command(group, SERVER, Image(tmp_path)))


def test_machine_gets_its_keys_and_addresses_as_files() -> None:
    files = {
        fields[1]: (fields[2], base64.b64decode(fields[6]).decode())
        for line in qemu.own_files(SERVER, "ssh-ed25519 AAAA", ("PRIVATE\n", "PUBLIC\n"))
        if (fields := line.split())[0] == "f~"
    }
    assert files["/etc/ssh/ssh_host_ed25519_key"] == ("0600", "PRIVATE\n")
    assert files["/etc/ssh/ssh_host_ed25519_key.pub"] == ("0644", "PUBLIC\n")
    assert files["/home/admin/.ssh/authorized_keys"] == ("0600", "ssh-ed25519 AAAA\n")
    assert "Address=10.77.0.10/24" in files["/etc/systemd/network/20-shared.network"][1]


def test_stale_pid_file_is_ignored(group: Group) -> None:
    assert qemu.pid_of(group, SERVER) is None
    group.file("nfs1", "pid").write_text(f"{os.getpid()}\n")
    assert qemu.pid_of(group, SERVER) is None
    assert not qemu.stop(group, SERVER)


def test_process_with_the_machines_name_is_found_and_stopped(group: Group) -> None:
    # After "ready" the process has its name; it ends with its input, so it does not outlive the test.
    command = ["sh", "-c", "echo ready; read -r line", "busbar-demo-nfs1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        group.file("nfs1", "pid").write_text(f"{child.pid}\n")
        assert qemu.pid_of(group, SERVER) == child.pid
        assert qemu.pid_of(group, CLIENT) is None
        assert qemu.stop(group, SERVER)
    assert child.returncode == -15


def test_error_contains_the_output_of_the_emulator(
    group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(qemu, "command", lambda *_: ["sh", "-c", "echo first; echo no such port >&2; exit 1"])
    with pytest.raises(UsageError, match="nfs1 did not start: no such port"):
        qemu.start(group, SERVER, Image(tmp_path))


def test_cable_of_a_stopped_machine_cannot_be_pulled(group: Group) -> None:
    with pytest.raises(UsageError, match="machine nfs1 does not answer"):
        qemu.set_cable(group, SERVER, plugged=False)
