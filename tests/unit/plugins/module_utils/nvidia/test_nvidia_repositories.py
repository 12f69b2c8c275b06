"""Tests of the repository URLs, for each distribution and for sites with mirrors."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.repositories import System, nvidia_repository

REPOS = "https://developer.download.nvidia.com/compute/cuda/repos"
ARCHIVE_KEY, DEBIAN_13_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
DEBIAN_13: System = {
    "distribution": "Debian",
    "version": "13.1",
    "major": "13",
    "family": "Debian",
    "architecture": "x86_64",
}
DEBIAN_12: System = {**DEBIAN_13, "version": "12.9", "major": "12"}
UBUNTU: System = {**DEBIAN_13, "distribution": "Ubuntu", "version": "24.04", "major": "24"}
ROCKY: System = {**DEBIAN_13, "distribution": "Rocky", "version": "9.6", "major": "9", "family": "RedHat"}
MIRROR = "http://mirror.example.org/cuda"


def found(name: str, system: System, **declared: Any) -> Any:  # noqa: ANN401 - options are of any kind
    return nvidia_repository(name, system, declared, "gpu1")


@pytest.mark.parametrize(
    ("system", "url", "key", "fingerprint"),
    [
        (DEBIAN_12, f"{REPOS}/debian12/x86_64/", "3bf863cc.pub", ARCHIVE_KEY),
        (DEBIAN_13, f"{REPOS}/debian13/x86_64/", "8793F200.pub", DEBIAN_13_KEY),
        (UBUNTU, f"{REPOS}/ubuntu2404/x86_64/", "3bf863cc.pub", ARCHIVE_KEY),
        ({**UBUNTU, "version": "22.04"}, f"{REPOS}/ubuntu2204/x86_64/", "3bf863cc.pub", ARCHIVE_KEY),
        ({**UBUNTU, "architecture": "aarch64"}, f"{REPOS}/ubuntu2404/sbsa/", "3bf863cc.pub", ARCHIVE_KEY),
        (
            {**UBUNTU, "version": "26.04", "architecture": "aarch64"},
            f"{REPOS}/ubuntu2604/sbsa/",
            "60DF8A40.pub",
            "14BAFBC7562AD710CA04E69905FBB6DA60DF8A40",
        ),
        (ROCKY, f"{REPOS}/rhel9/x86_64/", "D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    ],
)
def test_default_repository_of_each_system(system: System, url: str, key: str, fingerprint: str) -> None:
    repository = found("cuda", system)
    assert (repository["url"], repository["key_url"]) == (url, url + key)
    assert repository["fingerprint"] == fingerprint
    assert repository["problems"] == []


def test_container_toolkit_has_a_signed_index() -> None:
    repository = found("libnvidia-container", ROCKY)
    assert repository["url"].endswith("/stable/rpm/x86_64/")
    assert (repository["signed_packages"], repository["signed_metadata"]) == (False, True)
    assert found("libnvidia-container", {**UBUNTU, "architecture": "aarch64"})["url"].endswith("/stable/deb/arm64/")


@pytest.mark.parametrize(
    ("system", "name", "keys"),
    [
        ({**DEBIAN_13, "architecture": "aarch64"}, "cuda", ["urls", "fingerprints", "key_urls"]),
        ({**DEBIAN_13, "major": "11"}, "cuda", ["urls", "fingerprints", "key_urls"]),
        (DEBIAN_13, "doca", ["urls", "fingerprints"]),
        ({**ROCKY, "version": "10.1", "major": "10"}, "cuda", ["fingerprints"]),
    ],
)
def test_unknown_repository_values_are_requested(system: System, name: str, keys: list[str]) -> None:
    problems = found(name, system)["problems"]
    assert [item["key"] for item in problems] == [f"nvidia_repository_{key}.{name}" for key in keys]
    assert all(item["hosts"] == ["gpu1"] and item["remedy"] for item in problems)


def test_mirror_has_the_key_next_to_the_index() -> None:
    repository = found("cuda", DEBIAN_13, urls={"cuda": MIRROR})
    assert (repository["url"], repository["key_url"]) == (f"{MIRROR}/", f"{MIRROR}/8793F200.pub")
    assert repository["fingerprint"] == DEBIAN_13_KEY


def test_site_overrides_the_role() -> None:
    declared = {"url": "http://role/", "fingerprint": "B" * 40, "fingerprints": {"doca": "A" * 40}}
    repository = found("doca", DEBIAN_13, urls={"doca": "http://site/"}, **declared)
    assert (repository["url"], repository["fingerprint"]) == ("http://site/", "A" * 40)
    assert found("doca", DEBIAN_13, **declared)["url"] == "http://role/"


def test_key_file_is_not_downloaded() -> None:
    repository = found("cuda", DEBIAN_13, key_file="/srv/key.asc")
    assert (repository["key_url"], repository["problems"]) == ("", [])
