"""ACS is disabled on bridges above GPUs and NICs, and no other device is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpudirect import acs_control, acs_redirects
from ansible_collections.busbar.cluster.roles.gpudirect.files.acs_off import main

PLACE = 0x148
GPU, NIC, DISK, BRIDGE = ("0x10de", "0x030200"), ("0x15b3", "0x020000"), ("0x144d", "0x010802"), ("0x1000", "0x060400")


def space(control: int | None) -> bytes:
    """Return a configuration space whose second extended capability is ACS with this control register."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | PLACE << 20).to_bytes(4, "little")
    if control is not None:
        config[PLACE : PLACE + 4] = (0x000D | 1 << 16).to_bytes(4, "little")
        config[PLACE + 6 : PLACE + 8] = control.to_bytes(2, "little")
    return bytes(config)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a bus: a switch with a GPU and a NIC below it, and a bridge with a disk; ACS is enabled everywhere."""
    tree = tmp_path / "sys/devices/pci0000:00"
    below = {
        "0000:00:01.0": (BRIDGE, 0x5D),
        "0000:00:01.0/0000:01:00.0": (BRIDGE, 0x1D),
        "0000:00:01.0/0000:01:00.0/0000:02:00.0": (GPU, None),
        "0000:00:01.0/0000:01:00.0/0000:03:00.0": (NIC, None),
        "0000:00:02.0": (BRIDGE, 0x1D),
        "0000:00:02.0/0000:04:00.0": (DISK, None),
    }
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for path, ((vendor, kind), control) in below.items():
        folder = tree / path
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        (folder / "config").write_bytes(space(control))
        (devices / folder.name).symlink_to(folder)
    return tmp_path


def controls(root: Path) -> dict[str, int]:
    """Return the control registers on the bus."""
    found = {}
    for folder in sorted((root / "sys/bus/pci/devices").iterdir()):
        control = acs_control((folder / "config").read_bytes())
        if control:
            assert control[0] == PLACE + 6
            found[folder.name] = control[1]
    return found


def test_only_bridges_above_gpus_and_nics_are_changed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--look"], root) == 1
    assert capsys.readouterr().out == "0000:00:01.0: ACS is enabled\n0000:01:00.0: ACS is enabled\n"
    before = (root / "sys/bus/pci/devices/0000:01:00.0/config").read_bytes()
    assert main([], root) == 0
    assert controls(root) == {"0000:00:01.0": 0, "0000:01:00.0": 0, "0000:00:02.0": 0x1D}
    after = (root / "sys/bus/pci/devices/0000:01:00.0/config").read_bytes()
    assert [n for n in range(4096) if before[n] != after[n]] == [PLACE + 6]
    assert acs_redirects(after) is False
    capsys.readouterr()
    assert main([], root) == 0
    assert main(["--look"], root) == 0
    assert capsys.readouterr().out == ""


def test_bridge_that_rejects_writes_is_reported(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under lockdown, the kernel returns EPERM when the file is opened for writing."""
    real = Path.open

    def locked(path: Path, mode: str = "r", **options: Any) -> Any:  # noqa: ANN401 - signature of the real one
        if "+" in mode:
            raise PermissionError(1, "Operation not permitted")
        return real(path, mode, **options)

    monkeypatch.setattr(Path, "open", locked)
    assert main([], root) == 2
    assert (
        "0000:01:00.0: ACS cannot be disabled: Operation not permitted; disable it in the BIOS"
        in capsys.readouterr().err
    )


def test_truncated_configuration_space_is_left_alone(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:01:00.0/config").write_bytes(space(0x1D)[:64])
    assert main([], root) == 0
    assert controls(root)["0000:00:01.0"] == 0
