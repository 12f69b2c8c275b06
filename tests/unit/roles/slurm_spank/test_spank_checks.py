"""Tests of invalid declarations of SPANK plugins."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report
from ansible_collections.busbar.cluster.roles.slurm_spank.checks import check

PLUGIN: dict[str, Any] = {
    "name": "pyxis",
    "version": "0.24.0",
    "source": "https://mirror.example.com/pyxis.tar.gz",
    "sha256": "a" * 64,
    "arguments": ["runtime_path=/var/lib/pyxis"],
    "provides": ["--container-image"],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": ""}, "sha256 is 'not set'"),
        ({"sha256": "ABC"}, "sha256 is 'ABC'"),
        ({"name": "../x"}, "is not a valid file name"),
        ({"version": ""}, "has no version"),
        ({"source": "pyxis.tar.gz"}, "is not a URL or an absolute path"),
        ({"source": ""}, "needs either source or library"),
        ({"library": "/usr/lib/x.so"}, "needs either source or library"),
        ({"source": "", "library": "x.so"}, "is not an absolute path"),
        ({"arguments": ["two words"]}, "contains a space or #"),
        ({"colour": "red"}, "unknown keys: colour"),
    ],
)
def test_invalid_declarations_are_refused(change: dict[str, Any], said: str) -> None:
    report = problem_report(check({"plugins": [{**PLUGIN, **change}]}, {}))
    assert said in report
    assert "slurm_spank_plugins: " in report
    assert "remedy: " in report


def test_valid_declaration_is_accepted_and_a_duplicate_is_refused() -> None:
    assert check({"plugins": [PLUGIN]}, {}) == []
    assert "twice" in problem_report(check({"plugins": [PLUGIN, PLUGIN]}, {}))
