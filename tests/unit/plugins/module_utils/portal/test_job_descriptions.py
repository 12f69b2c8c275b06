"""Tests of the descriptions of job states and pending reasons."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.jobs_page import ended_words, queued_words


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("RUNNING", "None", "runs"),
        ("PENDING", "Resources", "waits for free nodes"),
        ("PENDING", "Priority", "waits: jobs of higher priority come first"),
        ("PENDING", "(Dependency)", "waits for a job that it depends on"),
        (
            "PENDING",
            "ReqNodeNotAvail, UnavailableNodes:gpu[1-2]",
            "waits for nodes that are out of service or reserved",
        ),
        ("PENDING", "QOSMaxGRESPerUser", "waits for a limit of its QOS: QOSMaxGRESPerUser"),
        ("PENDING", "AssocGrpGRES", "waits for a limit of its account: AssocGrpGRES"),
        ("PENDING", "AReasonOfTomorrow", "waits: AReasonOfTomorrow"),
        ("A_STATE_OF_TOMORROW", "None", "a state of tomorrow"),
    ],
)
def test_queued_job_is_described(state: str, reason: str, words: str) -> None:
    assert queued_words(state, reason) == words


def test_ended_job_is_described() -> None:
    assert ended_words("OUT_OF_MEMORY") == "ran out of memory"
    assert ended_words("REVOKED") == "revoked"
