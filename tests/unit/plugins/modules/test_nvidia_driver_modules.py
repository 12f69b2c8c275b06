"""The modules that read and change the driver's packages: what they understand of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import nvidia_driver_info, nvidia_driver_packages

if TYPE_CHECKING:
    from pathlib import Path

MADISON = """\
nvidia-driver-cuda | 580.95.05-1 | http://mirror/cuda ./ Packages
nvidia-driver-cuda | 570.133.20-1 | http://mirror/cuda ./ Packages
 libcuda1 | 550.163.01-2 | http://mirror/debian trixie/non-free amd64 Packages
"""
UNITS = """\
Id=nvidia-persistenced.service
ActiveState=active
UnitFileState=enabled

Id=nvidia-imex.service
ActiveState=inactive
UnitFileState=
"""
OLD, NEW = "570.133.20-1", "580.95.05-1"


def test_what_the_programs_print_is_understood() -> None:
    assert nvidia_driver_info.madison(MADISON) == {
        "nvidia-driver-cuda": [NEW, OLD],
        "libcuda1": ["550.163.01-2"],
    }
    assert nvidia_driver_info.pairs(f"a {OLD} ii \nb {OLD} rc \nc\n") == {"a": OLD}
    assert nvidia_driver_info.parameters('NvLinkDisable: 0\nRegistryDwords: ""\nx\n') == {
        "NvLinkDisable": "0",
        "RegistryDwords": '""',
    }
    assert nvidia_driver_info.units(UNITS) == {
        "nvidia-persistenced": {"enabled": "enabled", "active": "active"},
        "nvidia-imex": {"enabled": "", "active": "inactive"},
    }


class FakeModule:
    """Answers commands from a table and records them."""

    def __init__(self, answers: dict[str, str], programs: tuple[str, ...], **params: Any) -> None:  # noqa: ANN401
        """Keep the answers and say which programs there are."""
        self.answers, self.programs, self.params = answers, programs, params
        self.commands: list[str] = []
        self.check_mode = False

    def get_bin_path(self, name: str, **_: object) -> str | None:
        """Return where a program is."""
        return f"/usr/bin/{name}" if name in self.programs else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the output of the first answer that fits."""
        line = " ".join(command)
        self.commands.append(line)
        return 0, next((answer for key, answer in self.answers.items() if key in line), ""), ""


@pytest.mark.parametrize(
    ("answer", "enrolled"), [("/var/lib/dkms/mok.pub is already enrolled", True), ("is not enrolled", False)]
)
def test_secure_boot_and_the_key_of_dkms(tmp_path: Path, answer: str, *, enrolled: bool) -> None:
    variable = tmp_path / nvidia_driver_info.SECURE_BOOT
    key = tmp_path / "var/lib/dkms/mok.pub"
    for file, data in ((variable, b"\6\0\0\0\1"), (key, b"")):
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    module = FakeModule({"--test-key": answer}, ("mokutil",))
    assert nvidia_driver_info.firmware(module, tmp_path) == {
        "secure_boot": True,
        "signing_key": "/var/lib/dkms/mok.pub",
        "key_enrolled": enrolled,
    }
    variable.write_bytes(b"\6\0\0\0\0")
    assert not nvidia_driver_info.firmware(module, tmp_path)["secure_boot"]


def test_the_bus_and_the_kernel_are_read(tmp_path: Path) -> None:
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x10de", "0x068000"), ("c", "0x15b3", "0x020700")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert nvidia_driver_info.gpus_on_bus(tmp_path) == 1
    version = tmp_path / "proc/driver/nvidia/version"
    assert nvidia_driver_info.loaded_version(FakeModule({}, ()), tmp_path) == ""
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n")
    assert nvidia_driver_info.loaded_version(FakeModule({}, ()), tmp_path) == "580.95.05"


@pytest.mark.parametrize(
    ("installed", "wanted", "right"),
    [
        (None, "", False),
        (OLD, "", True),
        (OLD, OLD, True),
        (OLD, NEW, False),
        (OLD, "570.133.20-*", True),
        (None, "570.133.20-*", False),
    ],
)
def test_a_package_is_right_in_the_version_asked_for(installed: str | None, wanted: str, *, right: bool) -> None:
    assert nvidia_driver_packages.is_right(installed, wanted) is right


def test_all_of_the_version_is_held_and_nothing_else() -> None:
    installed = {
        "nvidia-driver-cuda": NEW,
        "libcuda1": NEW,
        "nvidia-container-toolkit": "1.18.0-1",
        "nvlsm": "2025.10-1",
    }
    packages = {"nvidia-driver-cuda": NEW, "nvlsm": "", "nvidia-imex": NEW}
    assert nvidia_driver_packages.to_hold(installed, packages, "580.95.05") == [
        "libcuda1",
        "nvidia-driver-cuda",
        "nvlsm",
    ]
    assert nvidia_driver_packages.to_hold(installed, packages, "") == ["nvidia-driver-cuda", "nvlsm"]


def test_one_transaction_for_apt_with_the_hold_taken_back_meanwhile() -> None:
    answers = {"showhold": "libcuda1\nlinux-image-amd64\n", "dpkg-query": f"libcuda1 {OLD} hi \n"}
    module = FakeModule(answers, ("dpkg-query",), family=["libcuda1*"], packages={}, remove=[])
    manager = nvidia_driver_packages.Manager(module)
    manager.install({"nvidia-driver-cuda": NEW, "nvlsm": ""}, ["nvidia-fabricmanager-570"])
    unhold, command, hold = [line for line in module.commands if "apt-get" in line or "hold libcuda1" in line]
    assert (unhold, hold) == ("apt-mark unhold libcuda1", "apt-mark hold libcuda1")
    assert "--no-install-recommends --allow-downgrades --allow-change-held-packages install" in command
    assert command.endswith(f"install nvidia-driver-cuda={NEW} nvlsm nvidia-fabricmanager-570-")


def test_stream_version_and_lock_for_dnf() -> None:
    listed = {"module list": "nvidia-driver 570-open [e] default\n"}
    module = FakeModule(listed, ("rpm",), stream="nvidia-driver:580-open")
    manager = nvidia_driver_packages.Manager(module)
    assert not manager.stream_is_enabled()
    manager.install({"nvidia-driver-cuda": "580.95.05-*"}, [])
    assert module.commands[1:4] == [
        "dnf -q module list --enabled nvidia-driver",
        "dnf --setopt=exit_on_lock=True -y module reset nvidia-driver",
        "dnf --setopt=exit_on_lock=True -y module enable nvidia-driver:580-open",
    ]
    assert module.commands[-1].endswith("--allowerasing install nvidia-driver-cuda-580.95.05*")


def test_the_difference_names_old_new_and_held() -> None:
    shown = nvidia_driver_packages.difference(
        {"a": OLD, "b": OLD, "c": OLD}, {"a": NEW, "b": OLD}, remove=["c"], hold=["a"]
    )
    assert shown["before"] == f"a {OLD}\nc {OLD}\n"
    assert shown["after"] == f"a {NEW}\na held\n"
