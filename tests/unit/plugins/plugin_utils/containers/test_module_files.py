"""Tests of Lmod module files, and of rejected declarations."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.filter.module_files import (
    module_file,
    module_files,
)

CUDA: dict[str, Any] = {
    "name": "cuda",
    "version": "12.4",
    "prepend_path": {"PATH": ["/cuda/bin", "/cuda/nvvm/bin"], "LD_LIBRARY_PATH": "/cuda/lib64"},
    "append_path": {"MANPATH": "/cuda/man"},
    "setenv": {"CUDA_HOME": "/cuda"},
    "conflict": ["rocm"],
    "family": "gpu",
    "requires_path": ["/cuda"],
}


def test_a_module_file_has_every_declared_line() -> None:
    lines = module_file(CUDA, "Ansible managed").splitlines()
    assert lines[0] == "-- Ansible managed"
    assert 'whatis("Name: cuda")' in lines
    assert 'whatis("Version: 12.4")' in lines
    assert lines[-8:] == [
        "end",
        'family("gpu")',
        'conflict("rocm")',
        'setenv("CUDA_HOME", "/cuda")',
        'prepend_path("PATH", "/cuda/nvvm/bin")',
        'prepend_path("PATH", "/cuda/bin")',  # the last one prepended comes first
        'prepend_path("LD_LIBRARY_PATH", "/cuda/lib64")',
        'append_path("MANPATH", "/cuda/man")',
    ]


def test_missing_software_is_reported_with_the_host() -> None:
    text = module_file(CUDA)
    assert 'if mode() == "load" and not (isFile("/cuda") or isDir("/cuda")) then' in text
    assert 'LmodError("cuda/12.4: /cuda is not on " .. host' in text


def test_dependency_is_loaded_by_every_lmod_release() -> None:
    """Lmod before 7.6 has no depends_on."""
    text = module_file({"name": "nccl", "version": "2", "depends_on": ["cuda/12.4"]})
    assert 'if depends_on then depends_on("cuda/12.4") elseif not isloaded("cuda/12.4") then load("cuda/12.4")' in text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('say "yes"', '"say \\"yes\\""'),
        ("a\\b", '"a\\\\b"'),
        ("two\nlines", '"two\\nlines"'),
        (12, '"12"'),
    ],
)
def test_values_are_lua_strings(value: object, written: str) -> None:
    assert f'setenv("X", {written})' in module_file({"name": "a", "version": "1", "setenv": {"X": value}})


def test_help_can_contain_brackets() -> None:
    assert "help([==[\nx ]=] y\n]==])" in module_file({"name": "a", "version": "1", "help": "x ]=] y\n"})


def test_raw_lines_come_last() -> None:
    assert module_file({"name": "a", "version": "1", "lua": "x()\n"}).endswith("\nx()\n")


def test_tree_has_a_file_per_module_and_per_default() -> None:
    modules: list[dict[str, Any]] = [
        {"name": "cuda", "version": "12.4", "default": True},
        {"name": "cuda", "version": "12.8"},
        {"name": "mpi/openmpi", "version": "5.0.7"},
        {"name": "old", "version": "1", "default": True, "state": "absent"},
    ]
    found = {item["path"]: item for item in module_files(modules, "/shared/modules", "Ansible managed")}
    assert {path: item["state"] for path, item in found.items()} == {
        "/shared/modules/cuda/12.4.lua": "present",
        "/shared/modules/cuda/12.8.lua": "present",
        "/shared/modules/cuda/.version": "present",
        "/shared/modules/mpi/openmpi/5.0.7.lua": "present",
        "/shared/modules/mpi/openmpi/.version": "absent",
        "/shared/modules/old/1.lua": "absent",
        "/shared/modules/old/.version": "absent",
    }
    assert found["/shared/modules/cuda/.version"]["content"].splitlines() == [
        "#%Module1.0",
        "# Ansible managed",
        'set ModulesVersion "12.4"',
    ]
