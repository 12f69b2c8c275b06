"""Tests of validation options from `-e`: conversion of strings, and error messages."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    all_problems,
    input_problems,
    typed,
)
from storage_samples import OPTIONS, STORAGE

NODES = ["gpu1", "gpu2"]


def test_strings_are_converted_to_their_types() -> None:
    asked = typed(
        OPTIONS
        | {
            "nodes": "gpu[1-2]",
            "stages": "storage, cluster",
            "rails": "mlx5_0,mlx5_1",
            "repeats": "3",
            "began": "1000.5",
            "drain_failed": "no",
            "topology": {"leaf1": "gpu[1-2]", "leaf2": ["gpu3"]},
            "node_checks": "",
            "storage": STORAGE | {"speed": "false", "seconds": "7", "read_floor": "1e6"},
        }
    )
    assert (asked["nodes"], asked["stages"], asked["rails"]) == (NODES, ["storage", "cluster"], ["mlx5_0", "mlx5_1"])
    assert (asked["repeats"], asked["began"], asked["drain_failed"], asked["node_checks"]) == (3, 1000.5, False, [])
    assert asked["topology"] == {"leaf1": NODES, "leaf2": ["gpu3"]}
    own = asked["own"]["storage"]
    assert (own["speed"], own["seconds"], own["read_floor"]) == (False, 7, 1e6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repeats": "3.5"}, "validation_repeats: '3.5' is not a whole number, 1 to 100"),
        ({"repeats": True}, "validation_repeats: True is not a whole number, 1 to 100"),
        ({"drain_failed": "perhaps"}, "validation_drain_failed: 'perhaps' is not true or false"),
        ({"user": ["a"]}, "validation_user: ['a'] is not a string"),
        ({"nodes": 3}, "validation_nodes: 3 is not a list"),
        ({"topology": {"leaf1": 3}}, "validation_topology: leaf1: 3 is not a list"),
        ({"hardware": "x"}, "validation_hardware: 'x' is not a dictionary"),
        ({"colour": "red"}, "validation_colour: unknown option"),
        ({"storage": STORAGE | {"sped": True}}, "validation_storage_sped: unknown option"),
        ({"storage": STORAGE | {"speed": "fast"}}, "validation_storage_speed: 'fast' is not true or false"),
        (
            {"storage": STORAGE | {"read_floor": "nan"}},
            "validation_storage_read_floor: 'nan' is not a number, 0 or more",
        ),
        ({"storage": {k: v for k, v in STORAGE.items() if k != "path"}}, "validation_storage_path: is missing"),
    ],
)
def test_each_invalid_option_is_one_error(changes: dict[str, Any], words: str) -> None:
    assert input_problems(OPTIONS | changes) == [words]
    with pytest.raises(ValueError, match=r"^validation_"):
        typed(OPTIONS | changes)


@pytest.mark.parametrize("key", ["image", "binary"])
def test_option_unused_by_the_backend_is_refused(key: str) -> None:
    (said,) = input_problems(OPTIONS | {"backend": "mpi", "binary": "", key: "/images/x"})
    assert said.startswith(f"validation_{key}: the backend mpi ")
    assert "remove it, or set validation_backend=nccl" in said
    assert input_problems(OPTIONS | {"backend": "nccl", key: "/images/x"}) == []


def test_all_invalid_options_are_reported_at_once() -> None:
    found = input_problems(OPTIONS | {"repeats": "x", "wait": "y", "storage": STORAGE | {"seconds": 0}})
    assert [line.split(":")[0] for line in found] == [
        "validation_repeats",
        "validation_wait",
        "validation_storage_seconds",
    ]


def test_unknown_hardware_is_reported_only_if_all_options_are_valid() -> None:
    options = OPTIONS | {"hardware": {"gpu1": "abacus"}}
    assert all_problems(OPTIONS) == []
    assert all_problems(options)[0].startswith("gpu1: hardware: unknown hardware 'abacus'. Remedy: ")
    assert all_problems(options | {"user": "root"})[0].startswith("validation_user: ")
