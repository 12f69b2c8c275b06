"""Tests of partition, account and QOS of the jobs, by the hardware of their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    input_problems,
    typed,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import next_step
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.partition_choice import queues
from validation_samples import validation_options

NODES = ["gpu1", "gpu2", "gpu3"]
MIXED = {"gpu1": "dgx_h100", "gpu2": "dgx_h100", "gpu3": "dgx_a100"}


def options(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    return validation_options(NODES, **{"hardware": MIXED, "stages": ["node"], **changes})


def words(given: dict[str, Any]) -> dict[str, list[str]]:
    """Return the partition, account and QOS arguments of each node's own job."""
    jobs = [test["job"] for test in next_step(given)["tests"]]
    keys = ("--partition", "--account", "--qos")
    return {job["nodes"][0]: [word for word in job["arguments"] if word.startswith(keys)] for job in jobs}


def test_dictionary_is_keyed_by_hardware() -> None:
    given = options(partition={"dgx_h100": "new", "default": "old"}, account={"dgx_a100": "a"})
    assert words(given) == {
        "gpu1": ["--partition=new"],
        "gpu2": ["--partition=new"],
        "gpu3": ["--partition=old", "--account=a"],
    }
    assert queues(typed(given)) == [
        {"partition": "new", "account": "", "qos": ""},
        {"partition": "old", "account": "a", "qos": ""},
    ]
    assert queues(typed(options())) == []


def test_site_arguments_come_last_and_take_precedence() -> None:
    (first, *_rest) = next_step(options(partition="gpu", sbatch_arguments=["--partition=mine"]))["tests"]
    asked = [word for word in first["job"]["arguments"] if "partition" in word]
    assert asked == ["--partition=gpu", "--partition=mine"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": "a b"}, "validation_partition: 'a b' is not a name"),
        ({"partition": "--uid=0"}, "validation_partition: '--uid=0' is not a name"),
        ({"account": ["ops"]}, "validation_account: ['ops'] must be a name, or a dictionary"),
        ({"qos": {"abacus": "x"}}, "validation_qos: unknown hardware profile 'abacus'"),
        ({"qos": {"dgx_h100": "x y"}}, "validation_qos: dgx_h100: 'x y' is not a name"),
        (
            {"partition": {"dgx_h100": "new"}, "stages": ["node", "cluster"]},
            "validation_partition: is new for gpu[1-2] and the default for gpu3, but a job on all nodes requires",
        ),
    ],
)
def test_invalid_value_is_refused_with_a_remedy(changes: dict[str, Any], words: str) -> None:
    (problem,) = input_problems(options(**changes))
    assert problem.startswith(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reservation": "a b"}, "validation_reservation: 'a b' is not a valid reservation name"),
        (
            {"reservation": "busbar-validation"},
            "busbar creates and deletes the reservation",
        ),
        ({"resume": "some"}, "validation_resume: 'some' is not one of own, all, none"),
    ],
)
def test_invalid_reservation_is_refused(changes: dict[str, Any], words: str) -> None:
    (problem,) = input_problems(options(**changes))
    assert words in problem
