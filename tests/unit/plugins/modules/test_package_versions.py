"""The module that brings packages to exact versions: what it asks the package manager for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import package_versions

CHANGES: Any = {"install": ["libnccl2=2.27.5", "dcgm"], "remove": ["old"], "hold": ["libnccl2"], "unhold": ["dcgm"]}
MADISON = "libnccl2 | 2.28-1 | u Packages\nlibnccl2 | 2.27.5-1+cuda12.9 | u Packages\ndcgm | 1:4.4-1 | u Packages\n"


class Failed(Exception):  # noqa: N818 - what fail_json does to a module
    """The module has failed."""


class Module:
    """Answers commands from a table and records them; ends when it fails."""

    def __init__(self, answers: dict[str, tuple[int, str]], programs: tuple[str, ...]) -> None:
        """Keep the answers; nothing is declared."""
        self.answers, self.programs = answers, programs
        self.commands: list[str] = []
        self.params: dict[str, Any] = {"packages": [], "absent": [], "untouched": [], "start_services": True}

    def get_bin_path(self, name: str) -> str | None:
        """Return where a program is."""
        return name if name in self.programs else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the first answer that fits."""
        self.commands.append(" ".join(command))
        status, out = next((found for key, found in self.answers.items() if key in self.commands[-1]), (0, ""))
        return status, out, ""

    def fail_json(self, msg: str, **_: object) -> None:
        """End."""
        raise Failed(msg)


def test_everything_is_one_transaction_with_exact_versions() -> None:
    module = Module({"madison": (0, MADISON)}, ("apt-get", "dpkg-query"))
    package_versions.apt(module, CHANGES)
    package_versions.apt_mark(module, CHANGES)
    install = [line for line in module.commands if " install " in line]
    assert len(install) == 1
    assert install[0].endswith(" install libnccl2=2.27.5-1+cuda12.9 dcgm old-")
    assert "--allow-downgrades --allow-change-held-packages" in install[0]
    assert module.commands[-2:] == ["apt-mark unhold dcgm", "apt-mark hold libnccl2"]
    assert not any(line.endswith(" update") for line in module.commands)


def test_what_would_touch_the_driver_is_refused_before_it_begins() -> None:
    module = Module({"madison": (0, MADISON), "--simulate": (0, "Remv nvidia-driver-570 [570]\n")}, ("apt-get",))
    module.params["untouched"] = ["nvidia-driver*"]
    with pytest.raises(Failed, match="this would change nvidia-driver-570, too; nothing was changed"):
        package_versions.apt(module, CHANGES)
    assert [line for line in module.commands if " install " in line and "--simulate" not in line] == []


def test_a_version_that_nobody_has_is_told_with_those_that_are_there() -> None:
    module = Module({"madison": (0, MADISON)}, ("apt-get", "dpkg-query"))
    with pytest.raises(
        Failed, match=r"no such version: libnccl2 9\.9 \(known: 2\.28-1, 2\.27\.5-1\+cuda12\.9\)\n +remedy"
    ):
        package_versions.apt(module, CHANGES | {"install": ["libnccl2=9.9"]})
    assert any(line.endswith(" update") for line in module.commands)
    assert not any(" install " in line for line in module.commands)


def test_dnf_frees_a_lock_before_it_moves_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:  # noqa: ANN401
    locks = tmp_path / "versionlock.list"
    locks.write_text("")
    monkeypatch.setattr(package_versions, "LOCKS", locks)
    module = Module({}, ("dnf", "rpm"))
    module.params["packages"] = [{"name": "libnccl2", "version": "2.27.5", "hold": True}]
    package_versions.dnf(module, CHANGES | {"hold": []})
    assert module.commands[0].endswith("-q versionlock delete dcgm libnccl2")
    assert module.commands[1].endswith("-y remove old")
    assert module.commands[2].endswith("install libnccl2-2.27.5 dcgm")
    assert module.commands[3].endswith("-q versionlock add libnccl2")
    assert all(line.startswith("dnf --setopt=exit_on_lock=True ") for line in module.commands)
