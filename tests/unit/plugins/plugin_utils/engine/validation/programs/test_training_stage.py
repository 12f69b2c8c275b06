"""Tests of stage training: planned job, report and figures, and nodes that are not blamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.junit import junit
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import metrics
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.plotly_figures import chart_figure
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import culprits, normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import input_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    budget,
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training import Training
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training_floors import (
    known_floors,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training_judge import (
    scales_of,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    summary_lines,
)
from plotly.graph_objects import Figure
from prometheus_client.parser import text_string_to_metric_families
from report_samples import nccl_text
from training_samples import NAMES, OPTIONS, TRAINING, entry, result, trained, training_text
from validation_samples import job_entry

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Report, State

ROOT = Path(__file__).parents[7]
SCHEMA = json.loads((ROOT / "roles/validation/files/report.schema.json").read_text())


@pytest.mark.parametrize(
    ("nodes", "ranks", "scales"),
    [
        (1, 1, [(1, 1)]),
        (1, 8, [(1, 1), (1, 8)]),
        (2, 1, [(1, 1), (2, 1)]),
        (2, 2, [(1, 1), (1, 2), (2, 2)]),
        (6, 8, [(1, 1), (1, 8), (2, 8), (4, 8), (6, 8)]),
        (8, 1, [(1, 1), (2, 1), (4, 1), (8, 1)]),
    ],
)
def test_scales(nodes: int, ranks: int, scales: list[tuple[int, int]]) -> None:
    assert scales_of(nodes, ranks) == scales


def test_training_is_one_job_of_all_nodes_with_a_rank_per_gpu() -> None:
    step = next_step(OPTIONS)
    assert (step["stage"], [test["name"] for test in step["tests"]]) == ("training", ["training"])
    job = step["tests"][0]["job"]
    assert (job["nodes"], job["minimum"]) == (NAMES, 1)
    assert job["script"].replace("export BUSBAR_RANKS_PER_NODE=1\n", "") == TRAINING["script"] != job["script"]
    assert job["arguments"] == ["--ntasks-per-node=1", "--export=ALL", "--gpus-per-node=1"]
    assert "training: one rank, one node, then more nodes, at most 600 s" in budget(OPTIONS)


def test_cpu_training_uses_gloo_and_requests_no_gpu() -> None:
    options = OPTIONS | {"backend": "mpi", "binary": ""}
    step = next_step(options)
    assert step["tests"][0]["job"]["arguments"] == ["--ntasks-per-node=1", "--export=ALL"]
    runs = [result(nodes, 1, backend="gloo") for nodes in (1, 2, 4)]
    state = with_results(options, None, step, {"tests": [entry()]}, [training_text(*runs)])
    assert state["tests"][0]["verdict"] == "PASS"


def test_training_is_the_last_stage_and_excludes_blamed_nodes() -> None:
    options = OPTIONS | {"stages": ["cluster", "training"], "nodes": NAMES[:2]}
    first = next_step(options)
    assert first["stage"] == "cluster"
    text = nccl_text(NAMES[:2], 1, 0.12)
    state = with_results(options, None, first, {"tests": [job_entry("cluster", NAMES[:2])]}, [text])
    assert state["tests"][0]["verdict"] == "PASS", state["tests"][0]["reason"]
    step = next_step(options, state)
    assert (step["stage"], step["tests"][0]["job"]["nodes"]) == ("training", NAMES[:2])
    check = {**state["tests"][0], "stage": "node", "kind": "p2p", "nodes": ["gpu1"], "verdict": "FAIL"}
    step = next_step(options, cast("State", {**state, "tests": [check, *state["tests"]]}))
    assert (step["stage"], step["tests"][0]["job"]["nodes"]) == ("training", ["gpu2"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 3}, "validation_training_steps: 3 is not a whole number, 10 or more"),
        ({"layers": -1}, "validation_training_layers: -1 is not a whole number, 0 or more"),
        ({"tflops": "much"}, "validation_training_tflops: 'much' is not a number, 0 or more"),
        ({"rate": -1}, "validation_training_rate: -1 is not a number, 0 or more"),
        ({"efficiency": 80}, "validation_training_efficiency: 80 is not a number, 0 to 1"),
    ],
)
def test_invalid_options_are_refused(changes: dict[str, Any], words: str) -> None:
    options = OPTIONS | {"training": TRAINING | changes}
    assert input_problems(options) == [words]
    with pytest.raises(ValueError, match="validation_training"):
        next_step(options)


def test_floor_comes_from_the_option_or_the_weakest_hardware() -> None:
    declared = {"efficiency_floor": 0.5, "samples_per_second_floor": 100, "source": "measured here"}
    profile = OPTIONS["catalogue"]["desktop"]
    options: dict[str, Any] = {"catalogue": {"desktop": {**profile, "training": declared}}}
    by_profile = trained(training=TRAINING | {"efficiency": 0}, **options)["tests"][0]
    assert (by_profile["verdict"], by_profile["source"]) == ("PASS", "measured here")
    assert by_profile["training"]["efficiency_floor"] == 0.5
    assert by_profile["training"]["rate_floor"] == 100
    assert trained(**options)["tests"][0]["training"]["efficiency_floor"] == 0.8
    bare: dict[str, Any] = {"catalogue": {"desktop": {**profile, "busbw": {}}}}
    unknown = trained(training=TRAINING | {"efficiency": 0}, **bare)["tests"][0]
    assert (unknown["verdict"], unknown["source"]) == ("INCONCLUSIVE", None)
    mixed = trained(training=TRAINING | {"efficiency": 0}, hardware={"gpu1": "desktop"}, **options)["tests"][0]
    assert mixed["verdict"] == "INCONCLUSIVE"


def test_floor_is_a_share_of_the_peak_of_the_weakest_gpu() -> None:
    fast = {"peak_tflops": 100, "gpt_share_floor": 0.05, "resnet50_share_floor": 0.9, "source": "fast"}
    slow = {"peak_tflops": 40, "gpt_share_floor": 0.1, "source": "slow"}
    profile = OPTIONS["catalogue"]["desktop"]
    catalogue = {"desktop": {**profile, "training": fast}, "other": {**profile, "training": slow}}
    hardware = dict.fromkeys(NAMES, "desktop") | {"gpu2": "other"}
    options: dict[str, Any] = {"catalogue": catalogue, "hardware": hardware}
    found = trained(training=TRAINING | {"efficiency": 0}, **options)["tests"][0]
    figures = found["training"]
    assert (found["verdict"], figures["tflops_floor"], figures["peak_tflops"]) == ("PASS", 4, 40)
    assert found["source"].startswith("fast; slow; computed: 0.9 of the efficiency if gradients")
    assert trained(training=TRAINING | {"tflops": 11}, **options)["tests"][0]["verdict"] == "FAIL"
    # The other profile has no share for resnet50, and the toy model has no floor.
    for model in ("resnet50", "mlp"):
        figures = trained(training=TRAINING | {"model": model}, **options)["tests"][0]["training"]
        assert figures["tflops_floor"] is None
    # Sandbox nodes share CPUs, so their scaling is unpredictable.
    known = known_floors(TRAINING | {"efficiency": 0}, [profile], "mpi")
    assert (known.inside, known.between, known.source) == (None, None, "")


def test_a_slow_network_fails_and_drains_no_node() -> None:
    data = trained(shared=0.8, drain_failed=True)
    assert (data["verdict"], data["drain"]["nodes"], data.get("culprits")) == ("FAIL", [], None)
    assert data["reason"].startswith(
        "training: 4 nodes: scaling efficiency 8% with 4 ranks, floor 80%: network-bound: "
    )
    assert culprits(normalised(data)) == []
    assert any(line.startswith("FAIL  training on gpu[1-4]: 4 nodes: ") for line in summary_lines(cast("Report", data)))
    suite = junit(normalised(data))
    assert 'classname="busbar.validation.training"' in suite
    assert "network-bound" in suite


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_report_matches_its_schema(shared: float) -> None:
    jsonschema.validate(json.loads(json.dumps(trained(shared))), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_table_and_bars() -> None:
    shown = Training().section(normalised(trained(shared=0.05))["tests"][0]["own"])
    assert shown["table"] is not None
    rows = [[cell["text"] for cell in row] for row in shown["table"]["rows"]]
    assert [row[0] for row in rows] == ["1 GPU", "2 nodes", "4 nodes"]
    assert rows[2][2:10] == ["1463", "2560", "57.14", "175", "100", "75", "42.86", "communication"]
    assert rows[2][10:14] == ["80", "0", "1.498e+06", "5.714"]
    assert {len(row) for row in rows} == {len(shown["table"]["columns"])}
    assert shown["facts"] == [("Trained", "gpt, bf16"), ("At least", "80% efficiency")]
    figure = Figure(chart_figure(shown["charts"][0]))
    assert [(bar.type, bar.name) for bar in figure.data] == [("bar", "measured"), ("bar", "ideal")]
    assert list(figure.data[0].x) == ["1 GPU", "2 nodes", "4 nodes"]
    assert list(figure.data[0].text) == ["", "66.7 %", "57.1 %"]
    empty: Any = dict.fromkeys(("efficiency_floor", "rate_floor", "tflops_floor", "loss_limit")) | {
        "model": "",
        "precision": "",
    }
    assert Training().section(empty | {"rows": []})["charts"] == []


def test_metrics() -> None:
    families = {item.name: item for item in text_string_to_metric_families(metrics(normalised(trained(shared=0.05))))}
    samples = families["busbar_training_efficiency_ratio"].samples
    assert {item.labels["nodes"]: round(item.value, 3) for item in samples} == {"1": 1.0, "2": 0.667, "4": 0.571}
    assert len(families["busbar_training_samples_per_second"].samples) == 3
    assert "busbar_check_verdict" not in families


def test_page_shows_the_loss_and_its_limit() -> None:
    test = trained(training=TRAINING | {"loss": 0.2, "loss_tolerance": 0.1})["tests"][0]
    assert test["verdict"] == "PASS", test["reason"]
    shown = normalised(json.loads(json.dumps(trained(training=TRAINING | {"loss": 0.2, "loss_tolerance": 0.1}))))
    (chart,) = [item for item in Training().section(shown["tests"][0]["own"])["charts"] if item["title"] == "Loss"]
    assert chart["kind"] == "lines"
    assert chart["at"] == [100, 200]
    assert chart["series"] == [{"name": "1 GPU", "values": [0.1, 0.01], "limits": [pytest.approx(0.22)]}]
    assert trained(training=TRAINING | {"loss": 0.001})["tests"][0]["verdict"] == "FAIL"
