"""Tests of several job scripts for one key of slurm.conf."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.combined_job_scripts import (
    script_keys,
    script_problems,
)

FOLDER = "/usr/local/lib/busbar"


@pytest.mark.parametrize(
    ("scripts", "wanted"),
    [
        ({}, {}),
        ({"Prolog": "/a"}, {"Prolog": "/a"}),
        ({"Prolog": ["/a"], "Epilog": []}, {"Prolog": "/a"}),
        ({"Prolog": ["/a", "/b"], "Epilog": ["/c"]}, {"Prolog": f"{FOLDER}/job_prolog", "Epilog": "/c"}),
    ],
)
def test_one_script_is_set_directly_and_several_through_a_wrapper(
    scripts: dict[str, Any], wanted: dict[str, str]
) -> None:
    assert script_keys(scripts, FOLDER) == wanted


@pytest.mark.parametrize(
    ("scripts", "key", "said"),
    [
        ({"Prologue": "/a"}, "slurm_job_scripts.Prologue", "is not a key for job scripts"),
        ({"Prolog": "a.sh"}, "slurm_job_scripts.Prolog", "'a.sh' is not an absolute path"),
        ({"Epilog": ["/a", "~/b"]}, "slurm_job_scripts.Epilog", "'~/b' is not an absolute path"),
    ],
)
def test_invalid_scripts_are_refused(scripts: dict[str, Any], key: str, said: str) -> None:
    (problem,) = script_problems(scripts)
    assert (problem["key"], problem["problem"]) == (key, said)


def test_valid_scripts_are_accepted() -> None:
    assert script_problems({"Prolog": ["/a", "/b"], "TaskProlog": "/c"}) == []
