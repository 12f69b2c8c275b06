"""Tests of the changes that give packages their declared versions and holds."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_changes import (
    Family,
    Present,
    Wanted,
    changes_for,
    parse_dpkg,
    parse_madison,
    parse_rpm,
    resolved,
    touched_packages,
    version_fits,
)

NCCL = "2.27.5-1+cuda12.9"
DPKG = (
    f"libnccl2\t{NCCL}\thold\tinstalled\n"
    "dcgm\t3.3.9\tdeinstall\tconfig-files\n"
    "cuda-toolkit-12-8\t12.8.1-1\tinstall\tinstalled\n"
    "libnccl-dev\t\tunknown\tnot-installed\n"
)
PRESENT = parse_dpkg(DPKG)


def wanted(name: str, version: str = "", *, hold: bool | None = None) -> Wanted:
    return {"name": name, "version": version, "hold": hold}


def test_only_installed_packages_are_listed() -> None:
    assert PRESENT == {
        "libnccl2": {"version": NCCL, "held": True},
        "cuda-toolkit-12-8": {"version": "12.8.1-1", "held": False},
    }


def test_rpm_packages_are_read_with_their_locks() -> None:
    listed = "nvidia-driver\t3:570.133.20-1.el9\nlibnccl\t2.27.5-1+cuda12.9\npackage x is not installed\n"
    locks = ["# made by dnf", "nvidia-driver-3:570.133.20-1.el9.*", "!libnccl-0:2.27.5-1.*"]
    assert parse_rpm(listed, locks) == {
        "nvidia-driver": {"version": "3:570.133.20-1.el9", "held": True},
        "libnccl": {"version": "2.27.5-1+cuda12.9", "held": False},
    }


@pytest.mark.parametrize(
    ("version", "asked", "fits"),
    [
        (NCCL, "", True),
        (NCCL, NCCL, True),
        (NCCL, "2.27.5-1+cuda12.8", False),
        (NCCL, "2.27.*", True),
        ("570.133.20-1", "570.133.20", True),
        ("570.133.20-1", "570.133.2", False),
        ("570.133.20-1", "570.133.20-*", True),
        ("1:4.4.1-1", "4.4.1-1", True),
        ("1:4.4.1-1", "1:4.4.1-1", True),
        ("1:14.4.1-1", "4.4.1-1", False),
    ],
)
def test_version_matches_a_version_or_pattern(version: str, asked: str, *, fits: bool) -> None:
    assert version_fits(version, asked) is fits


def test_declared_package_is_never_removed() -> None:
    changes = changes_for([wanted("libnccl2", NCCL)], ["lib*", "cuda-*"], PRESENT)
    assert (changes["install"], changes["remove"]) == ([], ["cuda-toolkit-12-8"])


@pytest.mark.parametrize(
    ("version", "hold"), [("570.133.20", ["libnvidia-ml1"]), ("580.95.05", ["nvidia-smi"]), ("", [])]
)
def test_packages_of_a_family_with_the_version_are_held(version: str, hold: list[str]) -> None:
    versions = {"libnvidia-ml1": "570.133.20-1", "nvidia-smi": "3:580.95.05-1", "dcgm": "570.133.20-1"}
    present: dict[str, Present] = {name: {"version": each, "held": False} for name, each in versions.items()}
    family: Family = {"names": ["libnvidia*", "nvidia-*"], "version": version}
    assert changes_for([], [], present, family)["hold"] == hold
    assert changes_for([], hold, present, family)["hold"] == [], "what goes is not held"


@pytest.mark.parametrize(
    ("word", "words", "lacking"),
    [
        ("libnccl2=2.27", ["libnccl2=2.27-1"], []),
        ("libnccl2=2.2*", ["libnccl2=2.28.1-1"], []),
        ("libnccl2=9", [], ["libnccl2 9 (known: 2.28.1-1, 2.27-1)"]),
        ("dcgm=4", [], ["dcgm 4 (known: none)"]),
    ],
)
def test_newest_matching_version_is_used(word: str, words: list[str], lacking: list[str]) -> None:
    known = {"libnccl2": ["2.28.1-1", "2.27-1"]}
    assert resolved([word], known) == (words, lacking)


def test_apt_versions_are_listed() -> None:
    text = (
        "  libnccl2 | 2.28.1-1+cuda13.0 | http://mirror/cuda ./ Packages\n"
        f"  libnccl2 | {NCCL} | http://mirror/cuda ./ Packages\n"
        f"  libnccl2 | {NCCL} | http://other ./ Packages\n"
        "  nccl | 2.0-1 | http://deb/debian trixie/non-free Sources\n"
    )
    assert parse_madison(text) == {"libnccl2": ["2.28.1-1+cuda13.0", NCCL], "nccl": []}


def test_simulation_shows_affected_packages() -> None:
    text = "Inst cuda-toolkit-12-8 (12.8.1-1)\nRemv nvidia-driver [570]\nConf nvidia-open (570)\nInst libcuda1 (580)\n"
    assert touched_packages(text, ["nvidia-*", "libcuda1*"]) == ["libcuda1", "nvidia-driver"]
    assert touched_packages(text, ["nvidia-open*"]) == []
