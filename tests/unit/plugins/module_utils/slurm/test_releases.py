"""Tests of the supported upgrades, compared with the table of SchedMD's Upgrade Guide."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.releases import (
    parse_candidates,
    path_to,
    release,
    release_text,
    window,
    window_problem,
)


@pytest.mark.parametrize(
    ("target", "former"),
    [
        ("23.11.4", ["23.02", "22.05"]),
        ("24.05.1", ["23.11", "23.02"]),
        ("24.11.5-4+deb13u1", ["24.05", "23.11", "23.02"]),
        ("25.05", ["24.11", "24.05", "23.11"]),
        ("25.11", ["25.05", "24.11", "24.05"]),
        ("26.05.5-1", ["25.11", "25.05", "24.11"]),
        ("26.11", ["26.05", "25.11", "25.05"]),
        ("27.05", ["26.11", "26.05", "25.11"]),
    ],
)
def test_window_matches_the_upgrade_guide(target: str, former: list[str]) -> None:
    assert window(target) == former


def test_text_without_a_release_is_refused() -> None:
    with pytest.raises(ValueError, match="no Slurm version in 'slurmctld: fatal'"):
        release("slurmctld: fatal")


def test_epoch_is_not_part_of_the_release() -> None:
    assert release_text("1:22.05.8-4+deb12u3") == "22.05"


@pytest.mark.parametrize(
    ("installed", "target"), [("24.11.5-4+deb13u1", "26.05.5-1"), ("26.05.3", "26.05.5-1"), ("22.05.8", "23.11.10")]
)
def test_upgrade_within_the_window_is_accepted(installed: str, target: str) -> None:
    assert window_problem(installed, target) == ("", "")


def test_upgrade_from_debian_12_to_13_is_refused_with_the_steps() -> None:
    problem, remedy = window_problem("22.05.8-4+deb12u3", "24.11.5-4+deb13u1")
    assert problem == (
        "22.05.8-4+deb12u3 is installed, and 24.11.5-4+deb13u1 only accepts state and jobs of 24.05, 23.11, 23.02"
    )
    assert remedy.startswith("upgrade in steps: 23.11, then 24.11;")
    assert path_to("22.05.8", "26.05.5") == ["23.11", "25.05", "26.05"]


def test_each_step_of_a_path_is_within_the_window() -> None:
    steps = ["20.02", *path_to("20.02", "27.05")]
    assert steps[-1] == "27.05"
    assert all(before in window(after) for before, after in itertools.pairwise(steps))


def test_downgrade_is_refused() -> None:
    problem, remedy = window_problem("26.05.5-1", "24.11.5-4")
    assert problem == "26.05.5-1 is installed, and 24.11.5-4 is offered: Slurm cannot be downgraded"
    assert "slurm_repository" in remedy


def test_invalid_release_of_slurm_is_refused() -> None:
    assert window_problem("24.11.5", "26.07.1")[0] == "26.07 is not a major Slurm release"


def test_apt_candidates_are_parsed() -> None:
    said = (
        "slurmctld:\n  Installed: 24.11.5-4\n  Candidate: 26.05.5-1\n  Version table:\n     26.05.5-1 990\n"
        "         50 http://archive/debian testing/main amd64 Packages\n"
        "slurmd:\n  Installed: (none)\n  Candidate: (none)\n"
    )
    assert parse_candidates(said) == {"slurmctld": ("24.11.5-4", "26.05.5-1"), "slurmd": ("", "")}
