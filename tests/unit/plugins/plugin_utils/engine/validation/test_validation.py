"""Tests of the options, tests and verdicts of a validation."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    input_problems,
    typed,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.planned_tests import (
    floor_for,
    planned_test,
    scope_for,
    with_variables,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    report,
)
from report_samples import nccl_text
from validation_samples import CATALOGUE, job_entry, validation_options

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Report

ROOT = Path(__file__).parents[6]
MPI = (ROOT / "tests/fixtures/nccl/mpi_2_nodes.txt").read_text()
OPTIONS = validation_options(
    ["gpu1", "gpu2"],
    backend="mpi",
    pool=["gpu1", "gpu2", "gpu3"],
    hardware={"gpu1": "sandbox_gpu", "gpu2": "sandbox_gpu", "gpu3": "dgx_h100"},
    stages=["cluster"],
    binary="",
    min_bytes="1M",
    max_bytes="16M",
    step_factor=4,
    cluster="test",
    began=0.0,
)
ENTRY = job_entry("cluster", ["gpu1", "gpu2"])


def judged(text: str | None = MPI, entry: dict[str, Any] | None = None, **options: Any) -> Report:  # noqa: ANN401
    chosen = {**OPTIONS, **options}
    result = {"tests": [{**ENTRY, **(entry or {})}], "node_reasons": []}
    return report(chosen, with_results(chosen, None, next_step(chosen), result, [text]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backend": "tcp"}, "validation_backend"),
        ({"backend": "nccl"}, "needs validation_binary"),
        ({"stages": ["world"]}, "validation_stages"),
        ({"min_bytes": "1X"}, "validation_min_bytes: '1X' is not a valid size"),
        ({"max_bytes": ""}, "validation_max_bytes"),
        ({"min_bytes": "32M"}, "above validation_max_bytes"),
        ({"step_factor": 1}, "validation_step_factor"),
        ({"iterations": 0}, "validation_iterations"),
        ({"locate_rounds": -1}, "validation_locate_rounds: -1 is not a whole number, 0 or more"),
        ({"time_limit": -5}, "validation_time_limit"),
        ({"drain_limit": 101}, "validation_drain_limit: 101 is not a whole number, 0 to 100"),
        ({"nvlink_domains": ["rack1"]}, "validation_nvlink_domains"),
        ({"rails": 5}, "validation_rails: 5 is not a list"),
        ({"rails": ["a b"]}, "validation_rails: must be a list of names of NICs"),
        ({"rails": ["a", "a"]}, "validation_rails: lists a more than once"),
        ({"rails": ["a"], "stages": ["node"]}, "validation_rails: requires the stage cluster"),
        ({"repeats": 0}, "validation_repeats: 0 is not a whole number, 1 to 100"),
        ({"wait": "soon"}, "validation_wait: 'soon' is not a whole number, 0 or more"),
        ({"spread_limit": 101}, "validation_spread_limit"),
        ({"collectives": []}, "validation_collectives: must be a list"),
        ({"collectives": ["all_reduce", "sum"]}, "validation_collectives: 'sum' is not one of all_reduce"),
        ({"collectives": ["reduce"]}, "validation_collectives: 'reduce' is not one of all_reduce"),
        ({"collectives": ["alltoall", "alltoall"]}, "lists alltoall more than once"),
        ({"search_collective": "best"}, "validation_search_collective: 'best' is not auto or one of"),
        ({"floor_gbs": "fast"}, "validation_floor_gbs: 'fast' is not a bandwidth in GB/s"),
        ({"floor_gbs": "nan"}, "validation_floor_gbs: 'nan' is not a bandwidth"),
        ({"floor_gbs": -3}, "validation_floor_gbs: -3 is not a bandwidth"),
        ({"floor_gbs": [3]}, "validation_floor_gbs: [3] is not a bandwidth"),
        ({"floor_gbs": {"all_reduce": "fast"}}, "validation_floor_gbs: all_reduce: 'fast' is not a bandwidth"),
        ({"floor_gbs": {"allreduce": 3}}, "validation_floor_gbs: 'allreduce' is not one of"),
        (
            {"floor_gbs": 3, "collectives": ["all_reduce", "alltoall"]},
            "one number cannot apply to several collectives: set {all_reduce: …, alltoall: …}",
        ),
        (
            {"backend": "nccl", "binary": "/opt/run.sh", "collectives": ["all_reduce", "alltoall"]},
            "validation_binary: /opt/run.sh is not an nccl-tests program, so it can run only one collective",
        ),
        ({"topology": {"leaf1": "gpu[1-"}}, "validation_topology: leaf1: "),
        ({"topology": {"leaf1": "gpu1", "leaf2": ["gpu1"]}}, "gpu1 is listed under leaf1 and leaf2"),
        ({"nodes": "gpu[1-"}, "validation_nodes"),
        ({"nodes": []}, "validation_nodes: is empty"),
        ({"nodes": "gpu[8-9]"}, "gpu[8-9] is not a compute node (known: gpu[1-3])"),
    ],
)
def test_input_problems(change: dict[str, Any], words: str) -> None:
    problems = input_problems({**OPTIONS, **change})
    assert any(words in problem for problem in problems), problems


def test_an_impossible_floor_is_refused_before_any_job() -> None:
    catalogue = copy.deepcopy(CATALOGUE)
    catalogue["dgx_h100"]["busbw"]["inter_node"].update(floor_gbs=800, limit_gbs=900)
    assert "is above the computed ceiling of" in input_problems({**OPTIONS, "nodes": "gpu3", "catalogue": catalogue})[0]


@pytest.mark.parametrize(
    "change",
    [
        {"floor_gbs": "0.5", "wait": "60"},
        {"floor_gbs": {"all_reduce": "0.5", "alltoall": 1}, "collectives": ["all_reduce", "alltoall"]},
        {"backend": "nccl", "binary": "/opt/run.sh"},
        {"backend": "nccl", "binary": "/opt/all_gather_perf", "collectives": ["alltoall", "reduce"]},
        {"backend": "nccl", "image": "x.sqsh", "collectives": ["all_reduce", "alltoall"]},
    ],
)
def test_valid_options_are_accepted(change: dict[str, Any]) -> None:
    assert input_problems({**OPTIONS, **change}) == []


def test_results_with_changed_variables_are_inconclusive() -> None:
    head = "# busbar test: all_reduce 1\n# busbar variable: gpu2 NCCL_IB_HCA is mlx5_9, the job set =mlx5_0\n"
    found = judged(f"{head}{MPI}\n# busbar exit: all_reduce 1 0\n")
    assert found["verdict"] == "INCONCLUSIVE"
    assert "gpu2: the program did not run as requested: NCCL_IB_HCA is mlx5_9, the job set =mlx5_0" in found["reason"]
    # Without that line the values count.
    assert judged(f"# busbar test: all_reduce 1\n{MPI}\n# busbar exit: all_reduce 1 0\n")["verdict"] == "PASS"


def test_container_fault_is_the_reason() -> None:
    said = (
        "slurmstepd-gpu1: error: pyxis: printing enroot log file:\n"
        "slurmstepd-gpu1: error: pyxis:     [ERROR] Command not found: nvidia-container-cli\n"
        "srun: error: gpu1: tasks 0-1: Exited with exit code 1\n"
    )
    text = f"# busbar test: all_reduce 1\n{said}# busbar exit: all_reduce 1 1\n"
    found = judged(text, {"state": "FAILED", "exit_code": "1:0"})
    assert (found["verdict"], found["reason"]) == (
        "INCONCLUSIVE",
        "cluster: gpu1: container: Command not found: nvidia-container-cli",
    )


def test_separate_single_rank_programs_are_inconclusive_in_any_line_order() -> None:
    """Open MPI 5 starts them this way under srun without PMIx, see open-mpi/ompi#13523."""
    alone = [nccl_text([node], 1, 1.0).splitlines() for node in ("gpu1", "gpu2")]
    one_by_one, mixed = [*alone[0], *alone[1]], [line for pair in zip(*alone) for line in pair]
    ranks_first = [line for line in mixed if "Rank" in line] + [line for line in mixed if "Rank" not in line]
    for lines in (one_by_one, mixed, ranks_first, [*mixed, "# Out of bounds values : 3 FAILED"]):
        text = "\n".join(["# busbar test: all_reduce 1", *lines, "# busbar exit: all_reduce 1 0", ""])
        found = judged(text)
        assert found["verdict"] == "INCONCLUSIVE"
        assert "2 programs with one rank each ran instead of one with 2 ranks" in found["reason"]


def test_each_collective_is_judged_by_its_own_output_and_floor() -> None:
    other = MPI.replace("all_reduce_perf", "broadcast_perf")
    text = (
        f"# busbar: Kernel=6.1\n\n# busbar test: all_reduce 1\n{MPI}\n# busbar exit: all_reduce 1 0\n"
        f"\n# busbar test: broadcast 1\n{other}\n# busbar exit: broadcast 1 1\n"
    )
    asked: dict[str, Any] = {"collectives": ["all_reduce", "broadcast"]}
    found = judged(text, {"state": "FAILED", "exit_code": "1:0"}, **asked)
    assert [(test["name"], test["collective"], test["floor"]) for test in found["tests"]] == [
        ("cluster", "all_reduce", 0.02),
        ("cluster-broadcast", "broadcast", 0.002),
    ]
    assert [test["verdict"] for test in found["tests"]] == ["PASS", "INCONCLUSIVE"]
    assert "ended as FAILED" in found["tests"][1]["reason"]
    assert {test["output"] for test in found["tests"]} == {"cluster.out"}
    assert {test["environment"]["Kernel"] for test in found["tests"]} == {"6.1"}
    cut = judged(text[: text.index("# busbar test: broadcast")], **asked)
    assert [test["verdict"] for test in cut["tests"]] == ["PASS", "INCONCLUSIVE"]
    assert "no output of nccl-tests" in cut["tests"][1]["reason"]
    floors = judged(text, floor_gbs={"broadcast": 50.0}, **asked)
    assert [test["verdict"] for test in floors["tests"]] == ["PASS", "FAIL"]


def test_repeats_are_counted_and_the_median_is_used() -> None:
    part = f"\n# busbar test: all_reduce {{}}\n{MPI}\n# busbar exit: all_reduce {{}} 0\n"
    text = part.format(1, 1) + part.format(2, 2)
    assert judged(text, repeats=2)["verdict"] == "PASS"
    assert "(median of 2: " in judged(text, repeats=2)["reason"]
    assert "the output contains 2 repeats (expected 3)" in judged(text, repeats=3)["reason"]


def test_repeats_skipped_for_lack_of_time_are_a_finding() -> None:
    part = f"\n# busbar test: all_reduce {{0}}\n{MPI}\n# busbar exit: all_reduce {{0}} 0\n"
    said = "\n# busbar repeats: {}, no time for more\n"
    (test,) = judged(part.format(1) + part.format(2) + said.format(2), repeats=3)["tests"]
    assert test["verdict"] == "PASS"
    assert "2 of 3 repeats finished in time: raise validation_test_time_limit" in test["findings"]
    (test,) = judged(part.format(1) + said.format(1), repeats=3)["tests"]
    told = "1 of 3 repeats finished in time, so steadiness is unknown: raise validation_test_time_limit"
    assert (test["verdict"], told in test["findings"]) == ("PASS", True)
    # A truncated repeat is not one that the job had no time for.
    assert "the output contains 1 repeats (expected 2)" in judged(part.format(1) + said.format(2), repeats=3)["reason"]


def test_numeric_floor_applies_to_the_measured_collective_only() -> None:
    options = {**OPTIONS, "floor_gbs": "7"}
    assert floor_for(typed(options), ["gpu1", "gpu2"], "all_reduce") == 7.0
    assert floor_for(typed(options), ["gpu1", "gpu2"], "alltoall") == 0.002
    assert floor_for(typed({**options, "hardware": {}}), ["gpu1"], "alltoall") is None
    # Hardware without a floor cannot pass with the floor of other hardware.
    mixed = {**OPTIONS, "backend": "nccl", "image": "x", "hardware": {"gpu1": "dgx_h100", "gpu2": "l40s"}}
    assert floor_for(typed(mixed), ["gpu1", "gpu2"], "all_reduce") == 6
    assert floor_for(typed(mixed), ["gpu1", "gpu2"], "alltoall") is None


def test_nccl_uses_the_gpu_count_of_the_smallest_node() -> None:
    options = {**OPTIONS, "backend": "nccl", "image": "x"}
    test = planned_test(typed(options), "cluster", "cluster", ["gpu1", "gpu3"])
    assert test["ranks_per_node"] == 2
    assert "--gpus-per-node=2" in test["job"]["arguments"]


def test_job_variables_are_exported_in_the_script_after_the_comments() -> None:
    """With names in --export, slurmd would run `su - USER` and cancel the job if that fails."""
    script = "#!/bin/bash\n# A comment.\n\n#SBATCH --mem=1\necho $A\n# Another.\n"
    done = with_variables(script, {"A": "it's", "B": 2})
    assert done == script.replace("echo", "export A='it'\"'\"'s'\nexport B=2\necho")
    assert with_variables("", {"A": 1}) == "export A=1\n"
    for options in ({}, {"backend": "nccl", "image": "x"}):
        job = planned_test(typed({**OPTIONS, **options}), "cluster", "cluster", ["gpu1", "gpu3"])["job"]
        assert [word for word in job["arguments"] if word.startswith("--export")] == ["--export=ALL"]


@pytest.mark.parametrize(
    ("text", "entry", "options", "verdict", "words"),
    [
        (None, {}, {}, "INCONCLUSIVE", "could not be fetched from gpu1"),
        (MPI, {"problem": "did not finish within 5 s and was cancelled"}, {}, "INCONCLUSIVE", "did not finish"),
        (MPI, {"state": "FAILED", "exit_code": "1:0"}, {}, "INCONCLUSIVE", "the job ended as FAILED"),
        (MPI, {"left_out": {"gpu3": "down"}}, {}, "INCONCLUSIVE", "not tested: gpu3 (down)"),
        (MPI, {"nodes": ["gpu1", "gpu2"], "partners": ["gpu3"]}, {}, "INCONCLUSIVE", "2 ranks took part (expected 3)"),
        (MPI, {}, {"floor_gbs": 50.0}, "FAIL", "too slow"),
        (MPI, {}, {"hardware": {}}, "INCONCLUSIVE", "no hardware"),
        (MPI, {}, {"hardware": {"gpu1": "x", "gpu2": "x"}, "floor_gbs": 0.001}, "PASS", "floor 0.001"),
        (MPI, {}, {"hardware": {"gpu1": "dgx_h100", "gpu2": "dgx_h100"}}, "INCONCLUSIVE", "no floor"),
        (
            MPI.replace("       0\n", "       1\n", 1).replace("0 OK", "1 FAILED"),
            {"state": "FAILED"},
            {},
            "FAIL",
            "sums are wrong",
        ),
    ],
)
def test_verdicts_of_a_job(
    text: str | None, entry: dict[str, Any], options: dict[str, Any], verdict: str, words: str
) -> None:
    found = judged(text, entry, **options)
    assert found["verdict"] == verdict
    assert words in found["reason"]


def test_tests_that_could_not_be_run_are_inconclusive() -> None:
    state = with_results(OPTIONS, None, next_step(OPTIONS), {"unreachable": True, "msg": "no route"}, [])
    found = report(OPTIONS, state)
    assert found["verdict"] == "INCONCLUSIVE"
    assert "no route" in found["reason"]


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("root", "validation_user: root cannot run tests"),
        ("a b;c", "'a b;c' is not a valid user name"),
        ("", "'' is not a valid user name"),
    ],
)
def test_privileged_users_are_refused(user: str, words: str) -> None:
    (problem,) = input_problems(validation_options(["gpu1", "gpu2"], user=user))
    assert words in problem


def test_floor_of_trays_follows_their_racks() -> None:
    racks = {"gpu1": "rack1", "gpu2": "rack1", "gpu3": "rack2", "gpu4": ""}
    trays = {
        **OPTIONS,
        "backend": "nccl",
        "image": "x",
        "pool": list(racks),
        "hardware": dict.fromkeys(racks, "gb200_nvl72"),
    }
    options = typed({**trays, "nvlink_domains": racks})
    assert floor_for(options, ["gpu1", "gpu2"], "all_reduce") == 730
    assert floor_for(options, ["gpu1", "gpu3"], "all_reduce") == 180
    assert floor_for(options, ["gpu1", "gpu4"], "all_reduce") is None
    assert floor_for(typed(trays), ["gpu1", "gpu2"], "all_reduce") is None
    scopes = [scope_for(options, ["gpu1", other], "all_reduce") for other in ("gpu2", "gpu3", "gpu4")]
    assert scopes == ["inter_node", "inter_domain", ""]
