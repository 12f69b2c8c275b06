# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find the reason for a failed job launch in slurmd's log, because squeue and sacct do not report it."""

from __future__ import annotations

import re

from ..engine.common.printable import printable

_BEGIN = "busbar-slurmd-log"
_ERROR = re.compile(r"error: (.*)")
_LONGEST = 300
# slurmd logs the cause, without the job ID, before "Could not launch JobId=7 StepId=batch and not able to requeue it,
# cancelling job" (req.c, _launch_job_fail; "job 7" up to Slurm 24.11).
_SCRIPT = """\
log=$(timeout 20 scontrol show config 2>/dev/null | sed -n 's/^SlurmdLogFile *= //p')
echo {begin}
{{ tail -n 5000 "$log" 2>/dev/null || journalctl -q -u slurmd -n 5000 -o cat; }} |
  grep -E 'error:|Could not launch' | grep -E -B 1 'Could not launch (JobId=|job ){job_id}([^0-9]|$)' | tail -n 2
"""


def launch_log_script(job_id: str) -> str:
    """Return a shell script that prints slurmd's log lines about the failed launch of a job.

    Raises:
        ValueError: if this is not a job ID.
    """
    if not re.fullmatch(r"[0-9]{1,10}", job_id):
        message = f"{job_id!r} is not a job ID"
        raise ValueError(message)
    return _SCRIPT.format(begin=_BEGIN, job_id=job_id)


def launch_error(text: str) -> str:
    """Return the error in the script's output, or '' if slurmd logged no error about the job."""
    for line in text.partition(f"{_BEGIN}\n")[2].splitlines():
        if found := _ERROR.search(line):
            return printable(found[1].strip())[:_LONGEST]
    return ""
