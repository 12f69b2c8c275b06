"""Tests of the report files that a validation writes on the provisioning host."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import jsonschema
import pytest
from conftest import QUICK, TOP, as_json, recap
from junitparser import JUnitXml
from prometheus_api import Prometheus
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

SCHEMA = json.loads((TOP / "roles/validation/files/report.schema.json").read_text(encoding="utf-8"))

DELIVERED = "/var/lib/prometheus/node-exporter/busbar_validation.prom"


def asked(sandbox: Cluster, query: str) -> dict[tuple[str, str], float]:
    """Return the result of a Prometheus query: values by node and stage, '' for missing labels."""
    found = Prometheus(sandbox.name).query(query)
    return {(labels.get("node", ""), labels.get("stage", "")): value for labels, value in found}


def test_validation_writes_report_junit_and_metrics(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    done = sandbox.playbook("validate.yml", "-t", "validation_run", *QUICK)
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
    assert sandbox.exec("ctl", f"cat {DELIVERED}").stdout == (latest / "busbar.prom").read_text(encoding="utf-8")


def test_prometheus_has_the_results_by_node(sandbox: Cluster) -> None:
    told = (sandbox.state / "reports" / "latest" / "busbar.prom").read_text(encoding="utf-8")
    began = next(
        family.samples[0].value
        for family in text_string_to_metric_families(told)
        if family.name == "busbar_validation_timestamp_seconds"
    )
    sandbox.wait_until(
        lambda: asked(sandbox, "busbar_validation_timestamp_seconds") == {("ctl", ""): began},
        "the validation cannot reach Prometheus",
    )
    assert asked(sandbox, "busbar_validation_verdict") == {("ctl", ""): 0}
    everywhere = {(node, stage) for node in sandbox.compute for stage in ("node", "cluster")}
    assert asked(sandbox, "busbar_node_busbw_bytes_per_second > 0").keys() == everywhere
    assert asked(sandbox, "busbar_node_floor_bytes_per_second > 0").keys() == everywhere
    assert asked(sandbox, "busbar_node_floor_bytes_per_second > busbar_node_ceiling_bytes_per_second") == {}
    assert asked(sandbox, "time() - busbar_node_validated_timestamp_seconds < 3600").keys() == {
        (node, "") for node in sandbox.compute
    }


def test_single_node_validation_keeps_other_results_and_reports_unreachable_host(sandbox: Cluster) -> None:
    alone, *others = sandbox.compute
    away = json.dumps({"validation_metrics_hosts": ["nowhere", "ctl"], "validation_stages": ["node"]})
    before = asked(sandbox, "busbar_node_figure_timestamp_seconds")
    # An inventory host whose address does not resolve.
    only = ("-i", "nowhere,", "--limit", alone)
    done = sandbox.playbook("validate.yml", "-t", "validation_run", *QUICK, *only, "-e", away)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the metrics could not be written to nowhere (validation_metrics_hosts): " in done.stdout
    families = text_string_to_metric_families(sandbox.exec("ctl", f"cat {DELIVERED}").stdout)
    figures = next(family for family in families if family.name == "busbar_node_figure_timestamp_seconds")
    after = {(sample.labels["node"], sample.labels["stage"]): sample.value for sample in figures.samples}
    assert {who for who in after if after[who] != before[who]} == {(alone, "node")}
    assert {(node, stage) for node in others for stage in ("node", "cluster")} <= after.keys()


def test_unusable_report_folder_is_refused_before_any_job(sandbox: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = sandbox.playbook("validate.yml", "-e", f"validation_reports_dir={tmp_path}/file/reports")
    assert done.returncode != 0
    assert "validation_reports_dir: " in done.stdout + done.stderr
    assert "validation : run |" not in done.stdout


@pytest.mark.fault(
    "a full disk for the reports",
    says="could not be written to …: No space left on device…busbar report render",
    heals="make room and render the report; no test is run again",
)
def test_report_on_a_full_disk_is_kept_and_fails_the_run(sandbox: Cluster, tmp_path: Path) -> None:
    """The raw outputs and report.json fit, the page does not; the exit code is not that of a passed validation."""
    sandbox.wait_idle()
    small = ("-t", "validation_run", *QUICK, "-e", f"validation_reports_dir={tmp_path}")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        done = sandbox.busbar("validate", "--name", sandbox.name, *small, "-l", sandbox.compute[0])
        said = " ".join(done.stdout.split())
        assert done.returncode == 3, done.stdout + done.stderr
        (folder,) = (path for path in tmp_path.iterdir() if not path.is_symlink())
        assert f"could not be written to {folder}: No space left on device" in said
        assert f"busbar report render {folder}" in said
        assert as_json((folder / "report.json").read_text(encoding="utf-8"))["verdict"] == "PASS"
        assert not (folder / "report.html").exists()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
