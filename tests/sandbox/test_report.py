"""The report of a validation as it is left on the provisioning host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
from conftest import QUICK, TOP, as_json, recap
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

SCHEMA = json.loads((TOP / "roles/nccl_validation/files/report.schema.json").read_text(encoding="utf-8"))


def test_a_validation_leaves_files_for_people_ci_and_prometheus(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    done = sandbox.playbook("validate.yml", "-t", "nccl_validation_run", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    latest = sandbox.state / "reports" / "latest"
    assert f"{latest.resolve()}/report.html" in done.stdout
    report = as_json((latest / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    assert report["tests"][0]["environment"]["Slurm"].startswith("slurm")
    assert "Debian" in report["tests"][0]["environment"]["Operating system"]
    page = (latest / "report.html").read_text(encoding="utf-8")
    assert f"<title>PASS: validation of {report['cluster']}</title>" in page
    suites = JUnitXml.fromstring((latest / "junit.xml").read_text(encoding="utf-8"))
    # Each node alone, then all together.
    assert (suites.tests, suites.failures, suites.errors) == (len(sandbox.compute) + 1, 0, 0)
    metrics = {
        family.name: family.samples
        for family in text_string_to_metric_families((latest / "busbar.prom").read_text(encoding="utf-8"))
    }
    assert [sample.value for sample in metrics["busbar_validation_verdict"]] == [0.0]
    judged = {(sample.labels["node"], sample.labels["stage"]) for sample in metrics["busbar_node_verdict"]}
    assert judged == {(node, stage) for node in sandbox.compute for stage in ("node", "cluster")}


def test_a_folder_that_cannot_hold_reports_is_refused_before_any_job(sandbox: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = sandbox.playbook("validate.yml", "-e", f"nccl_validation_reports_dir={tmp_path}/file/reports")
    assert done.returncode != 0
    assert "reports cannot be kept in" in done.stdout + done.stderr
    assert "nccl_validation : run |" not in done.stdout
