"""Invalid modules of a site are refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.lmod.checks import check


@pytest.mark.parametrize(
    ("modules", "key", "said"),
    [
        ([{"name": "../etc", "version": "1"}], "lmod_modules[0]", "'../etc' is not a valid module name"),
        ([{"name": "/etc", "version": "1"}], "lmod_modules[0]", "'/etc' is not a valid module name"),
        ([{"name": "a", "version": "1/2"}], "lmod_modules[0]", "version '1/2' is not a valid version"),
        ([{"name": "a", "version": ".hidden"}], "lmod_modules[0]", "version '.hidden'"),
        (
            [{"name": "a", "version": "1", "setenv": {"A-B": 1}}],
            "lmod_modules[0].setenv",
            "'A-B' is not a valid variable name",
        ),
        ([{"name": "a", "version": "1", "prepend_path": {"1": "/a"}}], "lmod_modules[0].prepend_path", "'1'"),
        ([{"name": "a", "version": "1"}] * 2, "lmod_modules", "a/1 is declared 2 times"),
        (
            [{"name": "a", "version": "1", "default": True}, {"name": "a", "version": "2", "default": True}],
            "lmod_modules",
            "a has 2 default versions",
        ),
    ],
)
def test_invalid_modules_are_reported(modules: list[dict[str, Any]], key: str, said: str) -> None:
    (problem,) = check({"modules": modules}, {"host": "ctl"})
    assert (problem["hosts"], problem["key"]) == (["ctl"], key)
    assert said in problem["problem"]
    assert problem["remedy"]


def test_valid_modules_are_accepted() -> None:
    assert (
        check(
            {"modules": [{"name": "cuda", "version": "12.4"}, {"name": "mpi/open_mpi", "version": "5.0.7-rc1"}]},
            {"host": "ctl"},
        )
        == []
    )
