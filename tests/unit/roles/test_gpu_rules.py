"""Tests of the recording rules for GPUs and their jobs with promtool."""

from __future__ import annotations

from pathlib import Path

from busbar.paths import collection
from promtool import promtool


def test_jobs_are_joined_with_their_user_one_to_one() -> None:
    promtool("check", "rules", collection() / "roles/prometheus/files/rules/gpu.yml")
    promtool("test", "rules", "rules.yml", cwd=Path(__file__).parent / "gpu")
