"""Tests of reading a host's driver state from the output of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.systemd import unit_states
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia import driver_host

if TYPE_CHECKING:
    from pathlib import Path

UNITS = """\
Id=nvidia-persistenced.service
ActiveState=active
UnitFileState=enabled

Id=nvidia-imex.service
ActiveState=inactive
UnitFileState=
"""
OLD = "570.133.20-1"


def test_program_output_is_parsed() -> None:
    assert driver_host.pairs(f"a {OLD} ii \nb {OLD} rc \nc\n") == {"a": OLD}
    assert driver_host.parameters('NvLinkDisable: 0\nRegistryDwords: ""\nx\n') == {
        "NvLinkDisable": "0",
        "RegistryDwords": '""',
    }
    assert unit_states(UNITS) == {
        "nvidia-persistenced": {"enabled": "enabled", "active": "active"},
        "nvidia-imex": {"enabled": "", "active": "inactive"},
    }


class FakeModule:
    """An AnsibleModule with a table of results that records the commands."""

    def __init__(self, answers: dict[str, str], programs: tuple[str, ...], **params: Any) -> None:  # noqa: ANN401
        """Store the results and the installed programs."""
        self.answers, self.programs, self.params = answers, programs, params
        self.commands: list[str] = []
        self.check_mode = False

    def get_bin_path(self, name: str, **_: object) -> str | None:
        """Return the path of an installed program."""
        return f"/usr/bin/{name}" if name in self.programs else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the first result whose key matches."""
        line = " ".join(command)
        self.commands.append(line)
        return 0, next((answer for key, answer in self.answers.items() if key in line), ""), ""


@pytest.mark.parametrize(
    ("answer", "enrolled"), [("/var/lib/dkms/mok.pub is already enrolled", True), ("is not enrolled", False)]
)
def test_secure_boot_and_the_dkms_key_are_read(tmp_path: Path, answer: str, *, enrolled: bool) -> None:
    variable = tmp_path / driver_host.SECURE_BOOT
    key = tmp_path / "var/lib/dkms/mok.pub"
    for file, data in ((variable, b"\6\0\0\0\1"), (key, b"")):
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    module = FakeModule({"--test-key": answer}, ("mokutil",))
    assert driver_host.firmware(module, tmp_path) == {
        "secure_boot": True,
        "signing_key": "/var/lib/dkms/mok.pub",
        "key_enrolled": enrolled,
    }
    variable.write_bytes(b"\6\0\0\0\0")
    assert not driver_host.firmware(module, tmp_path)["secure_boot"]


def test_version_of_the_loaded_driver_is_read(tmp_path: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    assert driver_host.loaded_version(None, tmp_path) == ""
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n")
    assert driver_host.loaded_version(None, tmp_path) == "580.95.05"


RELEASE = "6.8.0-136-generic"


def test_dkms_status_lines_are_parsed() -> None:
    """The format of dkms 2.8 to 3.2: do_status() and module_status_built_extra() of github.com/dell/dkms."""
    text = (
        f"nvidia/580.95.05, {RELEASE}, x86_64: installed\n"
        "nvidia-current/535.261.03, 6.1.0-28-amd64, x86_64: installed (WARNING! Diff between built and installed!)\n"
        f"nvidia-srv/580.95.05, {RELEASE}, x86_64: built\n"
        "nvidia/570.133.20: added\n"
        f"nvidia-fs/2.26.6, {RELEASE}, x86_64: installed\n"
        f"zfs/2.2.2, {RELEASE}, x86_64: installed\n"
        "Error! Could not locate dkms.conf file.\n"
    )
    found = [tuple(item.values()) for item in driver_host.dkms_status(text)]
    assert found == [
        ("nvidia", "580.95.05", RELEASE, "installed"),
        ("nvidia-current", "535.261.03", "6.1.0-28-amd64", "installed"),
        ("nvidia-srv", "580.95.05", RELEASE, "built"),
        ("nvidia", "570.133.20", "", "added"),
    ]


def test_module_versions_of_the_running_kernel_are_read(tmp_path: Path) -> None:
    for name in ("updates/dkms/nvidia.ko.zst", "updates/dkms/nvidia-uvm.ko.zst", "kernel/drivers/net/nvidiafb.ko"):
        path = tmp_path / "lib/modules" / RELEASE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    module = FakeModule({"-F version": "580.95.05\n"}, ("modinfo", "dkms"))
    assert driver_host.built(module, tmp_path, RELEASE) == ["580.95.05"]
    assert [line.rpartition("/")[2] for line in module.commands] == ["nvidia.ko.zst"]
    assert driver_host.built(module, tmp_path, "6.8.0-1-generic") == []
    assert driver_host.built(FakeModule({}, ()), tmp_path, RELEASE) == []


def test_headers_logs_and_modules_are_found(tmp_path: Path) -> None:
    empty = driver_host.kernel_side(FakeModule({}, ()), tmp_path, RELEASE)
    assert empty == {
        "headers": False,
        "built": [],
        "dkms": [],
        "make_log": {"path": "", "lines": []},
        "modules": {"nvidia": False, "nvidia-uvm": False, "ib_umad": False},
    }
    # A removed package leaves a dangling link.
    (tmp_path / "lib/modules" / RELEASE).mkdir(parents=True)
    build = tmp_path / "lib/modules" / RELEASE / "build"
    build.symlink_to(tmp_path / "headers")
    assert not driver_host.kernel_side(FakeModule({}, ()), tmp_path, RELEASE)["headers"]
    for folder in ("headers/include", "sys/module/nvidia_uvm", "var/lib/dkms/nvidia/580.95.05/build"):
        (tmp_path / folder).mkdir(parents=True)
    log = tmp_path / "var/lib/dkms/nvidia/580.95.05/build/make.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    found = driver_host.kernel_side(FakeModule({}, ()), tmp_path, RELEASE)
    assert (found["headers"], found["modules"]["nvidia-uvm"]) == (True, True)
    assert found["make_log"]["path"] == "/var/lib/dkms/nvidia/580.95.05/build/make.log"
    assert found["make_log"]["lines"] == [f"line {number}" for number in range(85, 100)]


def test_slurm_daemons_are_found_by_their_processes(tmp_path: Path) -> None:
    assert driver_host.slurm_daemons(tmp_path) == []
    for number, name in (("1", "systemd"), ("22", "slurmstepd"), ("self", "slurmd")):
        (tmp_path / "proc" / number).mkdir(parents=True)
        (tmp_path / "proc" / number / "comm").write_text(f"{name}\n")
    assert driver_host.slurm_daemons(tmp_path) == ["slurmstepd"]


def test_persistence_daemon_command_is_read_from_the_package_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unit = "[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --no-persistence-mode\nExecStopPost=rm x\n"
    monkeypatch.setattr(driver_host, "read", lambda _: unit)
    for folder, command in (
        ("/lib/systemd/system", "/usr/bin/nvidia-persistenced --no-persistence-mode"),
        ("/usr/lib/systemd/system", "/usr/bin/nvidia-persistenced --no-persistence-mode"),
        # A unit by the admin.
        ("/etc/systemd/system", ""),
    ):
        module = FakeModule({"FragmentPath": f"{folder}/nvidia-persistenced.service\n"}, ())
        assert driver_host.persistence_command(module) == command
    assert driver_host.persistence_command(FakeModule({}, ())) == ""
