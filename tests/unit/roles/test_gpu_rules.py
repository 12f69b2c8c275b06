"""Series that Prometheus records of GPUs and their jobs, as promtool works them out."""

from __future__ import annotations

from pathlib import Path

from busbar.paths import collection
from promtool import promtool


def test_a_job_is_joined_with_its_user_and_nothing_is_joined_with_many() -> None:
    promtool("check", "rules", collection() / "roles/prometheus/files/rules/gpu.yml")
    promtool("test", "rules", "rules.yml", cwd=Path(__file__).parent / "gpu")
