"""The tables of docs/adopt.md match the data of the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]


def test_the_page_matches_the_data() -> None:
    done = subprocess.run([sys.executable, str(TOP / "scripts/adopt_page"), "--check"], check=False, timeout=60)
    assert done.returncode == 0, "run scripts/adopt_page"
