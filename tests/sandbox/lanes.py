"""Which files of this folder run side by side, on two clusters; `scripts/test` asks.

    python tests/sandbox/lanes.py first|second    the files of a lane, in the order in which they run

A file that is not named in SECOND runs in the first lane, so that none is forgotten. Files that build on what another
one left stay in one lane. Both lanes should take about as long: pytest tells at the end of each. What judges a speed is
in neither: it is marked, and runs alone on the first cluster when the second is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["LANES", "SECOND", "files"]

HERE = Path(__file__).resolve().parent
LANES = ("first", "second")
SECOND = (
    "test_grafana.py",
    "test_journal.py",
    "test_rdma.py",
    "test_report.py",
    "test_rootless.py",
    "test_rootless_apptainer.py",
    "test_sandbox.py",
    "test_scratch.py",
    "test_site.py",
    "test_slurm_accounting.py",
    "test_slurm_jobs.py",
    "test_slurm_life.py",
    "test_slurm_metrics.py",
    "test_slurm_options.py",
    "test_slurm_secrets.py",
    "test_spank.py",
    "test_ssh.py",
    "test_tls.py",
    "test_training.py",
    "test_users.py",
    "test_validation_refused.py",
)


def files(lane: str) -> list[Path]:
    """Return the files of a lane, sorted by name.

    Raises:
        ValueError: there is no such lane.
    """
    if lane not in LANES:
        message = f"{lane!r} is no lane: {' or '.join(LANES)}"
        raise ValueError(message)
    return [path for path in sorted(HERE.glob("test_*.py")) if (path.name in SECOND) == (lane == "second")]


if __name__ == "__main__":
    if sys.argv[1:] not in [[lane] for lane in LANES]:
        sys.exit(__doc__)
    sys.stdout.writelines(f"{path}\n" for path in files(sys.argv[1]))
