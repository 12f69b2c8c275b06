"""Tests of the package names of SPANK plugins."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.spank_package_names import (
    plugin_line,
    plugin_package,
)

PLUGIN: dict[str, Any] = {
    "name": "pyxis",
    "version": "0.24.0",
    "source": "https://mirror.example.com/pyxis.tar.gz",
    "sha256": "a" * 64,
    "arguments": ["runtime_path=/var/lib/pyxis"],
    "provides": ["--container-image"],
}
INFO = {"slurm": "24.11.5", "architecture": "x86_64", "system": "debian13", "format": "deb"}


def test_package_name_contains_plugin_release_and_recipe() -> None:
    made = plugin_package(PLUGIN, INFO)
    package = made["package"]
    assert package.startswith("busbar-spank-pyxis-0.24.0-slurm24.11.5-")
    assert made["file"] == f"{package}.deb"
    assert made["library"] == f"/usr/lib/busbar/spank/{package.removeprefix('busbar-spank-')}.so"


@pytest.mark.parametrize("change", [{"slurm": "25.05.0"}, {"architecture": "aarch64"}, {"system": "debian12"}])
def test_build_for_another_platform_has_another_name(change: dict[str, str]) -> None:
    assert plugin_package(PLUGIN, INFO | change)["package"] != plugin_package(PLUGIN, INFO)["package"]


def test_package_name_is_valid_for_dpkg() -> None:
    """deb-control(5), Package: lower case letters, digits, plus, minus and dot."""
    name = plugin_package(PLUGIN | {"name": "my_plugin", "version": "1.0~RC1_a"}, INFO)["package"]
    assert name.startswith("busbar-spank-my-plugin-1.0-rc1-a-slurm24.11.5-")


def test_arguments_follow_the_library() -> None:
    assert plugin_line(PLUGIN, "/x.so") == "required /x.so runtime_path=/var/lib/pyxis"
    assert plugin_line({"required": False}, "/x.so") == "optional /x.so"
