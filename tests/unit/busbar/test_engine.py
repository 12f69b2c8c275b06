"""Tests of `busbar.engine`, the validation as a library, with a transport that simulates every job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from busbar import engine
from validation_transport import NODES, Cluster

TOP = Path(__file__).parents[3]


class Simulated(Cluster):
    """A simulated cluster whose validation can be interrupted and that refuses changes of nodes."""

    def __init__(self, folder: Path) -> None:
        """Store the folder of the report."""
        super().__init__()
        self.folder = folder
        self.interruption = engine.Interruption()

    def fetch(self, outputs: list[engine.Output], seconds: float) -> dict[str, str]:
        """Save outputs."""
        self.folder.mkdir(exist_ok=True)
        return super().fetch(outputs, seconds)

    def update_node(self, node: str, *words: str) -> str:
        """Refuse to update a node."""
        return f"{node}: {' '.join(words)}: not permitted"


def options(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    return engine.options(
        "nccl",
        NODES,
        hardware=dict.fromkeys(NODES, "dgx_h100"),
        catalogue=engine.site_catalogue({}),
        script=engine.job_script("nccl", ["/opt/nccl-tests/build/all_reduce_perf"], ""),
        binary="/opt/nccl-tests/build/all_reduce_perf",
        user="alice",
        cluster="alpha",
        began=1000.0,
        output="/var/log/x-%j.out",
        collectives=["all_reduce"],
        repeats=1,
        **changes,
    )


@pytest.mark.parametrize(("slow", "verdict"), [(set(), engine.PASS), ({"gpu3"}, engine.FAIL)])
def test_nodes_are_validated_through_a_transport(slow: set[str], verdict: str, tmp_path: Path) -> None:
    cluster = Simulated(tmp_path / "report")
    cluster.slow = slow
    assert engine.option_problems(options()) == []
    done = engine.run_validation(options(), cluster, tmp_path / "report")
    assert (done["verdict"], done["problem"], done["pages_problem"]) == (verdict, "", "")
    assert any(line.startswith(f"{verdict}  ") for line in cluster.said)
    report = engine.read_report(tmp_path / "report")
    assert [culprit["nodes"] for culprit in report["culprits"] or []] == [[node] for node in sorted(slow)]
    assert (tmp_path / "report/report.html").is_file()


def test_existing_output_is_judged() -> None:
    text = (TOP / "tests/fixtures/nccl/all_reduce_2x8.txt").read_text(encoding="utf-8")
    expected = engine.Expected(nodes=2, hardware="dgx_h100")
    answer = engine.judge(engine.read_output(text)["runs"], engine.shipped_profile("dgx_h100"), expected)
    assert answer["verdict"] == engine.FAIL
    assert answer["floor"] == 440


def test_engine_does_not_import_ansible() -> None:
    code = "import sys, busbar.engine; print(*sys.modules)"
    path = {"PYTHONPATH": f"{TOP / '.collections'}:{TOP / 'scripts'}"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=path)
    assert {"ansible", "ansible_runner", "paramiko"}.isdisjoint(done.stdout.split())
