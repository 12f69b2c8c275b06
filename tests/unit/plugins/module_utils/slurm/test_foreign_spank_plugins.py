"""Tests of finding the SPANK plugins of a host that are not from busbar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import foreign_spank_plugins as plugstack
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.foreign_spank_plugins import (
    foreign_plugins,
    stack_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

BUILT = b"built for 24.11.5"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root directory with a plugin of Slurm, one of busbar and one in another directory."""

    def slurm_of(data: bytes) -> str:
        if data != BUILT:
            message = "no plugin"
            raise ValueError(message)
        return "24.11.5"

    monkeypatch.setattr(plugstack, "slurm_of_plugin", slurm_of)
    for name in ("usr/lib/x86_64-linux-gnu/slurm-wlm/own.so", "opt/greet.so", "opt/busbar.so"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BUILT)
    (tmp_path / "opt/text.so").write_text("text")
    (tmp_path / "etc/slurm/plugstack.conf.d").mkdir(parents=True)
    return tmp_path


def test_lines_of_all_included_files_are_read_without_comments(root: Path) -> None:
    stack = root / "etc/slurm/plugstack.conf"
    stack.write_text(
        f"# required /no.so\nrequired own.so a=1\ninclude plugstack.conf.d/*.conf\ninclude {stack}\ninclude /no/*\n"
    )
    (root / "etc/slurm/plugstack.conf.d/x.conf").write_text(f"  optional {root}/opt/greet.so # mine\nnonsense\n")
    assert [line.library for line in stack_lines(stack)] == ["own.so", f"{root}/opt/greet.so"]


def test_busbar_plugins_and_unloadable_files_are_left_out(root: Path) -> None:
    lines = ["own.so", *(f"{root}/opt/{name}.so" for name in ("greet", "text", "absent"))]
    stack = root / "etc/slurm/plugstack.conf"
    stack.write_text("".join(f"required {line}\n" for line in lines) + "include plugstack.conf.d/*.conf\n")
    (root / "etc/slurm/plugstack.conf.d/busbar-x.conf").write_text(f"required {root}/opt/busbar.so\n")
    found = foreign_plugins(root)
    assert [each["library"].removeprefix(str(root)) for each in found] == [
        "/usr/lib/x86_64-linux-gnu/slurm-wlm/own.so",
        "/opt/greet.so",
    ]
    assert {(each["file"], each["slurm"]) for each in found} == {(str(stack), "24.11.5")}


def test_configless_copy_and_renamed_plugstack_are_read(root: Path) -> None:
    sent = root / "run/slurm/conf"
    sent.mkdir(parents=True)
    (sent / "slurm.conf").write_text("ClusterName=a\n plugstackconfig = /etc/other.conf\n")
    (sent / "plugstack.conf").write_text("required own.so\n")
    (root / "etc/other.conf").write_text(f"optional {root}/opt/greet.so\n")
    files = {each["file"] for each in foreign_plugins(root)}
    assert files == {str(root / "etc/slurm/plugstack.conf"), str(root / "etc/other.conf")}
