"""Tests of the checks of single nodes in a validation, with a simulated check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation import node_checks
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    input_problems,
    typed,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    budget,
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.node_checks import (
    Check,
    planned_checks,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    report,
    summary_lines,
)
from check_samples import OPTIONS, answer, entry

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Entry

HUNG = {"problem": "did not finish within 900 s and was cancelled", "state": "RUNNING"}
CRASHED = {"problem": "the job ended as NODE_FAIL (None)", "state": "NODE_FAIL"}
WORDS = {"good": "PASS", "bad": "FAIL"}
JOBS = {
    "words": {"script": "#!/bin/bash\necho good\n", "time_limit": 900, "arguments": ["--mem=0"]},
    "more": {"script": "#!/bin/bash\necho more\n", "time_limit": 30},
}
ASKED: dict[str, Any] = {**OPTIONS, "node_checks": ["words", "more"], "check_jobs": JOBS}


def judge_words(data: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    verdict = WORDS.get(data["text"], "INCONCLUSIVE")
    return {"verdict": verdict, "reason": f"{about['node']} said {data['text']!r}", "own": data["text"]}


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Check(lambda text: {"text": text.strip()}, judge_words, gpus=2)
    monkeypatch.setattr(node_checks, "CHECKS", {"words": check, "more": check})


def drive(said: dict[str, str], how: dict[str, Any] | None = None, **changes: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401
    """Run a validation in which the checks print these words; `how` sets the result of their jobs."""
    options = {**ASKED, **changes}
    state, steps = None, []
    while (step := next_step(options, state, 1000.0))["tests"]:
        steps.append(step)
        both = [
            answer(test)
            if test["kind"] == "collective"
            else (entry(test, **(how or {})), said.get(test["name"], "good"))
            for test in step["tests"]
        ]
        result = {"tests": [one for one, _text in both], "node_reasons": []}
        state = with_results(options, state, step, result, [text for _one, text in both])
    assert state is not None
    return report(options, state), steps


def test_each_kind_of_check_is_a_separate_step_after_the_all_reduce() -> None:
    found, steps = drive({})
    kinds = [sorted({test["kind"] for test in step["tests"]}) for step in steps]
    assert kinds == [["collective"], ["words"], ["more"], ["collective"]]
    assert [step["stage"] for step in steps] == ["node", "node", "node", "cluster"]
    assert [step["time_limit"] for step in steps] == [600, 900, 30, 600]
    assert (found["verdict"], len(found["tests"])) == ("PASS", 4 + 4 + 4 + 1)


def test_job_requests_all_gpus_of_its_node() -> None:
    job = planned_checks(typed(ASKED), ["gpu2"])[0]
    assert (job["name"], job["stage"], job["kind"], job["job"]["nodes"]) == ("words-gpu2", "node", "words", ["gpu2"])
    assert job["job"]["script"] == JOBS["words"]["script"]
    assert job["job"]["arguments"] == ["--ntasks-per-node=1", "--gpus-per-node=8", "--mem=0"]


def test_check_skips_nodes_with_too_few_gpus_but_not_unknown_hardware() -> None:
    hardware = {"gpu1": "rtx_3060_desktop", "gpu2": "no_such"}
    found = planned_checks(typed({**ASKED, "hardware": hardware, "node_checks": ["words"]}), ["gpu1", "gpu2"])
    assert [test["name"] for test in found] == ["words-gpu2"]
    assert found[0]["job"]["arguments"] == ["--ntasks-per-node=1", "--mem=0"]


def test_node_with_a_failed_check_is_blamed_and_excluded() -> None:
    found, steps = drive({"words-gpu2": "bad"})
    assert found["verdict"] == "FAIL"
    assert [(item["kind"], item["nodes"]) for item in found["culprits"]] == [("node", ["gpu2"])]
    assert found["reason"] == "words-gpu2: gpu2 said 'bad'"
    assert steps[-1]["tests"][0]["job"]["nodes"] == ["gpu1", "gpu3", "gpu4"]
    assert "FAIL  words-gpu2 on gpu2: gpu2 said 'bad'" in summary_lines(found)
    assert [item["node"] for item in found["drain"]["nodes"]] == ["gpu2"]


def test_check_without_a_result_excludes_no_node() -> None:
    found, steps = drive({"words-gpu2": "what?"})
    assert (found["verdict"], found.get("culprits", [])) == ("INCONCLUSIVE", [])
    assert steps[-1]["tests"][0]["job"]["nodes"] == ["gpu1", "gpu2", "gpu3", "gpu4"]


@pytest.mark.parametrize(
    ("how", "word", "verdict", "words"),
    [
        (HUNG, "good", "INCONCLUSIVE", "did not finish within"),
        (CRASHED, "bad", "INCONCLUSIVE", "NODE_FAIL"),
        ({"state": "FAILED", "exit_code": "9:0"}, "good", "INCONCLUSIVE", "exit code 9:0"),
        ({"state": "FAILED", "exit_code": "1:0"}, "bad", "FAIL", "said 'bad'"),
    ],
)
def test_job_state_decides_the_verdict(how: dict[str, Any], word: str, verdict: str, words: str) -> None:
    found, _steps = drive({f"words-gpu{n}": word for n in range(1, 5)}, how, node_checks=["words"])
    test = next(test for test in found["tests"] if test["kind"] == "words")
    assert test["verdict"] == verdict
    assert words in test["reason"]


def test_check_with_changed_variables_is_inconclusive() -> None:
    told = "# busbar variable: gpu3 CUDA_DEVICE_ORDER is FASTEST_FIRST, the job set PCI_BUS_ID\n"
    planned = node_checks.planned_checks(typed(ASKED), ["gpu3"])[0]
    found = node_checks.judged_check(typed(ASKED), planned, cast("Entry", entry(planned)), f"{told}fail")
    assert found["verdict"] == "INCONCLUSIVE"
    assert "CUDA_DEVICE_ORDER is FASTEST_FIRST" in found["reason"]


def test_unfetched_output_is_inconclusive() -> None:
    planned = planned_checks(typed(ASKED), ["gpu1"])[0]
    found = node_checks.judged_check(typed(ASKED), planned, cast("Entry", entry(planned)), None)
    assert (found["verdict"], found["reason"]) == ("INCONCLUSIVE", "the output could not be fetched from gpu1")


def test_unavailable_node_is_not_waited_for_again() -> None:
    step = next_step(ASKED)
    both = [answer(test) for test in step["tests"]]
    entries = [one for one, _text in both]
    entries[0] |= {"nodes": [], "left_out": {"gpu1": "down"}, "job_id": "", "problem": "0 usable node(s)"}
    state = with_results(ASKED, None, step, {"tests": entries}, [None, *(text for _one, text in both[1:])])
    assert [test["name"] for test in next_step(ASKED, state)["tests"]] == ["words-gpu2", "words-gpu3", "words-gpu4"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"node_checks": ["nonsense"]}, "'nonsense' is not one of more, words"),
        (
            {"check_jobs": {"words": {"script": "", "time_limit": 0}}, "node_checks": ["words"]},
            "0 is out of range (1 to 86400 s)",
        ),
        ({"time_limit": 60}, "time_limit: 60 is less than the 900 s that words may take"),
        ({"p2p_floor_gbs": -1}, "validation_p2p_floor_gbs: must be"),
        ({"stages": ["cluster"]}, "requires the stage node"),
    ],
)
def test_invalid_options_are_named(changes: dict[str, Any], words: str) -> None:
    assert any(words in problem for problem in input_problems({**ASKED, **changes}))
    with pytest.raises(ValueError, match=re.escape(words)):
        next_step({**ASKED, **changes})


def test_budget_includes_the_checks() -> None:
    assert "then words, at most 900 s, then more, at most 30 s; cluster:" in budget(ASKED)
    assert input_problems(OPTIONS) == []
