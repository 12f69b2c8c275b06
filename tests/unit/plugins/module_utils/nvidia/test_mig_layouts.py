"""Tests of the MIG profiles of each GPU model, and of refused layouts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_layouts import (
    gpu_layouts,
    layout_counts,
    layout_problems,
    mig_geometry,
    place,
)

A100: dict[str, Any] = {"model": "NVIDIA A100-SXM4-40GB", "memory_mb": 40960, "count": 8}
L40S: dict[str, Any] = {"model": "NVIDIA L40S", "memory_mb": 46068, "count": 4}


@pytest.mark.parametrize(
    ("model", "memory_mb", "whole", "small"),
    [
        ("NVIDIA A30", 24576, "4g.24gb", "1g.6gb"),
        ("NVIDIA A100-SXM4-40GB", 40960, "7g.40gb", "1g.5gb"),
        ("NVIDIA A100-PCIE-40GB", 40536, "7g.40gb", "1g.5gb"),
        ("NVIDIA A100-SXM4-80GB", 81920, "7g.80gb", "1g.10gb"),
        ("NVIDIA H100 80GB HBM3", 81559, "7g.80gb", "1g.10gb"),
        ("NVIDIA H100 NVL", 95830, "7g.94gb", "1g.12gb"),
        ("NVIDIA GH200 480GB", 97871, "7g.96gb", "1g.12gb"),
        ("NVIDIA H200", 143771, "7g.141gb", "1g.18gb"),
        ("NVIDIA B200", 183359, "7g.180gb", "1g.23gb"),
        ("NVIDIA GB200", 189471, "7g.186gb", "1g.23gb"),
        ("NVIDIA GB300", 284208, "7g.278gb", "1g.35gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "4g.96gb", "1g.24gb"),
    ],
)
def test_each_model_holds_one_whole_or_many_small_instances(model: str, memory_mb: int, whole: str, small: str) -> None:
    geometry = mig_geometry(model, memory_mb)
    assert geometry is not None
    assert place(geometry, [whole]) == [(whole, 0)]
    most = int(whole[0])
    assert [start for _, start in place(geometry, [small] * most)] == list(range(most))
    with pytest.raises(ValueError, match=f"which supports at most {most}"):
        place(geometry, [small] * (most + 1))


@pytest.mark.parametrize("model", ["Tesla V100-SXM2-32GB", "NVIDIA L40S", "NVIDIA GeForce RTX 4090", "NVIDIA A10"])
def test_other_models_have_no_mig(model: str) -> None:
    assert mig_geometry(model, 40960) is None


@pytest.mark.parametrize(
    ("profiles", "placed"),
    [
        (["3g.20gb", "4g.20gb"], [("4g.20gb", 0), ("3g.20gb", 4)]),
        (["3g.20gb"] * 2, [("3g.20gb", 0), ("3g.20gb", 4)]),
        (["2g.10gb", "3g.20gb", "2g.10gb"], [("2g.10gb", 0), ("2g.10gb", 2), ("3g.20gb", 4)]),
        (["2g.10gb"] * 3 + ["1g.5gb"], [("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4), ("1g.5gb", 6)]),
        (["1g.5gb+me", "1g.5gb"], [("1g.5gb", 0), ("1g.5gb+me", 1)]),
        (["1g.10gb"] * 4, [("1g.10gb", 0), ("1g.10gb", 2), ("1g.10gb", 4), ("1g.10gb", 6)]),
    ],
)
def test_profiles_are_placed_at_supported_positions(profiles: list[str], placed: list[tuple[str, int]]) -> None:
    geometry = mig_geometry("A100", 40960)
    assert geometry is not None
    found = place(geometry, profiles)
    assert [start for _, start in found] == [start for _, start in placed]
    assert sorted(name for name, _ in found) == sorted(profiles)
    for name, start in found:
        assert start in geometry.profiles[name].starts
    taken = [slot for name, start in found for slot in range(start, start + geometry.profiles[name].size)]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize(
    ("gpu", "layout", "words"),
    [
        (A100, [], ""),
        (L40S, [], ""),
        (A100, {"profile": "1g.5gb", "count": 7}, ""),
        (A100, [{"profile": "1g.5gb", "count": 7, "gpus": [0]}, {"profile": "3g.20gb", "count": 2, "gpus": [7]}], ""),
        (L40S, {"profile": "1g.5gb"}, "no MIG profiles are known for NVIDIA L40S with 46068 MiB"),
        (
            A100,
            {"profile": "1g.5gb", "count": 8},
            "GPU 0,1,2,3,4,5,6,7: 8 x 1g.5gb on one A100 40 GB, which supports at most 7",
        ),
        (A100, {"profile": "2g.20gb"}, "7g.40gb; supported by A100 80 GB: check the hardware profile"),
        (A100, {"profile": "1g.18gb"}, "A100 40 GB has no profile 1g.18gb; it has 1g.10gb, "),
        (
            A100,
            [
                {"profile": "4g.20gb", "gpus": [3]},
                {"profile": "2g.10gb", "count": 2, "gpus": [3]},
                {"profile": "1g.5gb"},
            ],
            "GPU 3: 1 x 4g.20gb + 2 x 2g.10gb + 1 x 1g.5gb do not fit together",
        ),
        (A100, {"profile": "1g.5gb", "gpus": [8]}, "GPU 8 does not exist: the node has 8 GPUs (0 to 7)"),
        (A100, {"profile": "1g.5gb", "count": 0}, "count must be a whole number, at least 1"),
        (A100, {"profile": "1g.5gb", "colour": 1}, "entry 1: colour: unknown key"),
        (A100, [{"count": 7}], "entry 1 must have profile, such as 1g.10gb, and count"),
        (A100, "1g.5gb", "'1g.5gb' is neither an entry"),
        (A100, {"profile": "1g.5gb", "gpus": 0}, "gpus must be a list of GPU indexes"),
    ],
)
def test_invalid_layouts_are_refused(gpu: dict[str, Any], layout: object, words: str) -> None:
    found = layout_problems(gpu, layout)
    assert words in "; ".join(found)
    assert bool(found) == bool(words)


def test_layout_is_expanded_per_gpu_and_counted_by_slurm_type() -> None:
    layout = [{"profile": "1g.5gb+me"}, {"profile": "1g.5gb", "count": 2}, {"profile": "3g.20gb", "gpus": [1]}]
    assert gpu_layouts(layout, 2) == [["1g.5gb+me"] + ["1g.5gb"] * 2, ["1g.5gb+me"] + ["1g.5gb"] * 2 + ["3g.20gb"]]
    assert layout_counts(layout, 2) == {"1g.5gb": 6, "3g.20gb": 1}
    assert layout_counts([{"profile": "3g.40gb", "count": 2, "slurm_type": "3g.39gb"}], 4) == {"3g.39gb": 8}
