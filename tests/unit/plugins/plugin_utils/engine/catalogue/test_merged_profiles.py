"""Tests of the shipped profiles, their schema, and merging with a site's entries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_choice import GENERATIONS
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings import KEYS
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue import builtin_profiles
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    PROFILES,
    profile_names,
    shipped_profile,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.collectives import COLLECTIVES
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import (
    site_catalogue,
    site_profile,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import (
    floor_advice,
    profile_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_schema import SCHEMA
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES: dict[str, Any] = json.loads(SCHEMA.read_text())


@pytest.mark.parametrize("name", profile_names())
def test_profile_has_no_problems_and_names_its_schema_for_editors(name: str) -> None:
    profile = shipped_profile(name)
    assert profile_problems(name, profile) == []
    assert floor_advice({name: profile}) == []
    assert profile["description"]
    assert "# yaml-language-server: $schema=../profile.schema.json" in (PROFILES / f"{name}.yml").read_text()


def test_every_file_is_a_profile() -> None:
    assert {path.name for path in PROFILES.iterdir()} == {f"{name}.yml" for name in profile_names()}
    assert len(profile_names()) >= 17


@pytest.mark.parametrize(
    ("name", "like", "own"),
    [
        ("dgx_h100", "hgx_h100", {"description", "cores_per_socket", "memory_mb", "gpu"}),
        ("dgx_a100_80gb", "hgx_a100", {"description", "cores_per_socket", "memory_mb", "gpu"}),
        ("dgx_a100", "hgx_a100", {"description", "cores_per_socket", "gpu", "gemm"}),
    ],
)
def test_profile_inherits_unset_keys_from_its_like(name: str, like: str, own: set[str]) -> None:
    found, below = shipped_profile(name), shipped_profile(like)
    assert "like" not in found
    assert {key for key in found if found[key] != below[key]} == own
    assert found["gpu"]["cpu_sockets"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert "cpu_sockets" not in below["gpu"]
    assert found["gpu"]["device_files"] == below["gpu"]["device_files"]


def test_empty_dictionary_clears_inherited_keys_and_one_gpu_has_no_links() -> None:
    """A rented virtual machine with one of the eight GPUs of a server."""
    entry = {"like": "hgx_h100", "gpu": {"count": 1, "device_files": "/dev/nvidia0"}, "busbw": {}}
    found = site_profile("one_h100", {"one_h100": entry})
    assert found["busbw"] == {}
    assert (found["gpu"]["model"], found["gpu"]["nvlink_gbs"], found["gpu"]["nvswitch"]) == (
        "NVIDIA H100 80GB HBM3",
        0,
        False,
    )
    assert not profile_problems("one_h100", found)


def test_site_entry_inherits_from_a_shipped_profile_or_another_entry() -> None:
    extra = {
        "pod": {"like": "hgx_h100", "memory_mb": 5, "busbw": {"inter_node": {"floor_gbs": 200, "source": "ours"}}},
        "big_pod": {"like": "pod", "sockets": 4},
        "l40s": {"like": "dgx_h200"},
    }
    found = site_catalogue(extra)
    assert (found["pod"]["memory_mb"], found["pod"]["gpu"]) == (5, shipped_profile("hgx_h100")["gpu"])
    between = found["pod"]["busbw"]["inter_node"]
    # A site's floor applies to any number of nodes.
    assert (between["floor_gbs"], "floors" in between, "in_network" in between) == (200, False, False)
    assert found["big_pod"] == {**found["pod"], "sockets": 4}
    assert found["l40s"] == shipped_profile("dgx_h200")
    assert [profile_problems(name, found[name]) for name in extra] == [[], [], []]


@pytest.mark.parametrize(
    ("extra", "name", "problem", "remedy"),
    [
        ({"pod": {"like": "hgx_h1000"}}, "pod", "unknown hardware 'hgx_h1000' (did you mean hgx_h100", "dgx_h200"),
        ({"pod": {"like": 3}}, "pod", "unknown hardware 3", "hardware_profiles_extra"),
        ({"pod": {"like": "pod"}}, "pod", "pod refers to itself", "another profile"),
        ({"l40s": {"like": "l40s"}}, "l40s", "l40s refers to itself", "another profile"),
        ({"a": {"like": "b"}, "b": {"like": "a"}}, "b", "refers to itself", "another profile"),
    ],
)
def test_like_without_a_matching_profile_is_refused(
    extra: dict[str, Any], name: str, problem: str, remedy: str
) -> None:
    (found,) = profile_problems(name, site_catalogue(extra)[name])
    assert found["key"].endswith(f"{name}.like")
    assert problem in found["problem"]
    assert remedy in found["remedy"]


def properties(rules: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for part in (rules, *rules["$defs"].values()):
        yield from part.get("properties", {}).items()


def test_bf16_gpus_have_a_share_of_their_peak_as_floor() -> None:
    """No floor in images/s exceeds NVIDIA's published 2470/s of an A100, which all GPUs but desktop models reach."""
    operations = 6 * 4.09e9
    for name in profile_names():
        profile = shipped_profile(name)
        training = profile.get("training") or {}
        older = "V100" in profile["gpu"]["model"] or name == "sandbox_gpu"
        assert ("peak_tflops" in training) != older, name
        if training:
            assert 0 < training["gpt_share_floor"] < 0.29, name
            assert training["resnet50_share_floor"] * training["peak_tflops"] * 1e12 / operations < 2470, name


def test_schema_is_valid_and_describes_every_key() -> None:
    Draft202012Validator.check_schema(RULES)
    for key, found in properties(RULES):
        meant = RULES["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        assert found.get("description") or meant["description"], key


def test_schema_lists_the_values_known_to_the_code() -> None:
    gpu = RULES["$defs"]["gpu"]["properties"]
    assert gpu["generation"]["enum"] == list(GENERATIONS)
    assert list(gpu["settings"]["properties"]) == list(KEYS)
    known = RULES["$defs"]["scope"]["properties"]["collectives"]["properties"]
    assert sorted(known) == sorted(set(COLLECTIVES) - {"all_reduce"})


def test_one_requested_profile_reads_one_file() -> None:
    shipped_profile.cache_clear()
    assert site_profile("l40s", {"dgx_h100": {"sockets": 1}})["gpu"]["model"] == "NVIDIA L40S"
    assert shipped_profile.cache_info().currsize == 1


def test_site_entry_is_merged_over_the_profile_of_the_same_name() -> None:
    extra = {"l40s": {"memory_mb": 1, "gpu": {"count": 8}, "nics": []}, "own": {"sockets": 1}}
    found = site_catalogue(extra)
    assert set(found) == {*profile_names(), "own"}
    assert found["own"] == {"sockets": 1}
    assert found["l40s"] == site_profile("l40s", extra)
    assert (found["l40s"]["memory_mb"], found["l40s"]["nics"], found["l40s"]["sockets"]) == (1, [], 2)
    assert found["l40s"]["gpu"] == {**shipped_profile("l40s")["gpu"], "count": 8}
    assert shipped_profile("l40s")["gpu"]["count"] == 4


@pytest.mark.parametrize("name", ["no_such", "../profiles/l40s", ""])
def test_invalid_name_is_not_used_as_a_path(name: str) -> None:
    with pytest.raises(KeyError):
        site_profile(name, {})


def test_invalid_yaml_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.yml").write_text("gpu: {")
    monkeypatch.setattr(builtin_profiles, "PROFILES", tmp_path)
    with pytest.raises(ValueError, match=r"broken\.yml is not valid YAML: "):
        shipped_profile("broken")
