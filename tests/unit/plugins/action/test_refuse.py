"""Tests of the action that ends a run because of invalid input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.busbar.cluster.plugins.action.refuse import ActionModule
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_refused

if TYPE_CHECKING:
    from collections.abc import Mapping

ALONE = {"hosts": ["gpu1"], "key": "cuda_versions", "problem": "9 is too old", "remedy": "name 13.0"}


class Local:
    """The attributes of a connection that an action without a host uses."""

    class _shell:  # noqa: N801 - Ansible's name
        tmpdir = None


def run(**arguments: object) -> dict[str, Any]:
    """Return the result of the action with these arguments."""
    task = Task()
    task.action, task.args = "busbar.cluster.refuse", dict(arguments)
    action = ActionModule(task, Local(), None, DataLoader(), Templar(loader=DataLoader()), None)
    return dict(action.run(task_vars={}))


@pytest.mark.parametrize("arguments", [{}, {"problems": []}, {"problems": [], "headline": "Nothing was installed:"}])
def test_action_without_problems_does_not_fail(arguments: dict[str, Any]) -> None:
    result = run(**arguments)
    assert not result.get("failed")
    assert not is_refused(result)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"problems": [ALONE]}, "This step changed nothing:\ngpu1: cuda_versions: 9 is too old\n    remedy: name 13.0"),
        (
            {"problems": [ALONE, {**ALONE, "hosts": ["gpu2"]}], "headline": ""},
            "gpu[1-2]: cuda_versions: 9 is too old\n    remedy: name 13.0",
        ),
        ({"msg": "gpu1: x is not set: set it"}, "gpu1: x is not set: set it"),
    ],
)
def test_all_problems_are_reported_and_the_result_is_marked_as_refused(arguments: dict[str, Any], text: str) -> None:
    result = run(**arguments)
    assert (result["failed"], result["msg"]) == (True, text)
    assert is_refused(result)


def test_advice_is_returned_without_failure() -> None:
    result = run(problems=[{**ALONE, "advice": True}])
    assert not result.get("failed")
    assert result["advice"] == ["gpu1: cuda_versions: 9 is too old", "    remedy: name 13.0"]
    refused = run(problems=[{**ALONE, "hosts": ["gpu2"]}, {**ALONE, "advice": True}])
    assert [each["hosts"] for each in refused["problems"]] == [["gpu2"]]
    assert refused["msg"].index("gpu2: ") < refused["msg"].index("gpu1: ")


@pytest.mark.parametrize(
    ("result", "refused"),
    [
        ({"failed": True, "msg": "x"}, False),
        ({"failed": True, "busbar_refused": "yes"}, False),
        ({"results": [{"failed": True, "busbar_refused": True}, {"failed": False}], "failed": True}, True),
        ({"results": [{"failed": True, "busbar_refused": True}, {"failed": True}], "failed": True}, False),
        ({"results": [], "failed": True}, False),
    ],
)
def test_loop_is_refused_only_if_all_failed_items_are(result: Mapping[str, Any], *, refused: bool) -> None:
    assert is_refused(dict(result)) is refused
