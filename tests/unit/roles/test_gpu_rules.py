"""Series that Prometheus records of GPUs and their jobs, as promtool works them out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from busbar.paths import collection

CACHED = collection() / ".cache/promtool/usr/bin/promtool"
PROMTOOL = str(CACHED) if CACHED.exists() else shutil.which("promtool")
RULES = collection() / "roles/prometheus/files/rules/gpu.yml"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there: run scripts/setup --test")
def test_a_job_is_joined_with_its_user_and_nothing_is_joined_with_many() -> None:
    assert PROMTOOL
    for words in (["check", "rules", str(RULES)], ["test", "rules", "rules.yml"]):
        folder = Path(__file__).parent / "gpu"
        done = subprocess.run([PROMTOOL, *words], cwd=folder, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
