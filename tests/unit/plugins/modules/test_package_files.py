"""Tests of the package manager's commands for package files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import upstream_release

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"a package"


class Module:
    """An AnsibleModule that records commands and has the programs of one distribution."""

    check_mode = False

    def __init__(self, source: Path, *programs: str) -> None:
        """Store the directory of the files and the installed programs."""
        self.params, self.programs = {"source": str(source)}, programs
        self.commands: list[list[str]] = []

    def get_bin_path(self, name: str) -> str | None:
        """Return the path of an installed program."""
        return name if name in self.programs else None

    def run_command(self, command: list[str], **_: Any) -> tuple[int, str, str]:  # noqa: ANN401
        """Return success."""
        self.commands.append(command)
        return 0, "", ""


@pytest.mark.parametrize("program", ["dnf", "apt-get"])
def test_package_file_install_does_not_disable_signature_checks(tmp_path: Path, program: str) -> None:
    (tmp_path / "enroot.pkg").write_bytes(CONTENT)
    item = {"name": "enroot", "version": "4", "file": "enroot.pkg", "sha256": hashlib.sha256(CONTENT).hexdigest()}
    module = Module(tmp_path, program)
    upstream_release.install(module, [item])
    (command,) = module.commands
    assert command[0] == program
    assert command[-2] == "install"
    assert command[-1].endswith("/enroot.pkg")
    weak = {"--nogpgcheck", "--no-gpgchecks", "--allow-unauthenticated", "--force-yes"}
    assert not weak & set(command)
    assert not any("gpgcheck" in word.lower() or "allowunauthenticated" in word.lower() for word in command)
