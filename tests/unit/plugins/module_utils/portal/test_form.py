"""Tests of the portal's notebook form."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import Partition
from ansible_collections.busbar.cluster.plugins.module_utils.portal.form import choices_from_form, page

PARTITION = Partition("batch", True, 0, frozenset(), frozenset(), 8, 6, {"h100": 8}, {"h100": 5}, 8, {})  # noqa: FBT003
PROPOSED = {"minutes": 120, "cpus": 2, "memory_gib": 0}


def test_form_shows_free_resources_and_the_end_of_the_last_notebook() -> None:
    text = page(
        [PARTITION],
        ["research"],
        {"default": "Python <3>"},
        PROPOSED,
        most_minutes=720,
        ended="it reached its time limit",
    )
    assert "batch: 5 of 8 GPUs h100 free, 6 of 8 CPUs free" in text
    assert "Your last notebook ended: it reached its time limit." in text
    assert "Python &lt;3&gt;" in text
    assert 'name="hours" value="2" min="0.25" max="12"' in text
    assert 'name="gpus" value="1" min="0" max="8"' in text


def test_user_without_partitions_gets_a_message() -> None:
    assert "You have access to no partition" in page(
        [], [], {"default": "Python"}, PROPOSED, most_minutes=720, ended=""
    )


def test_form_without_gpus_and_accounts_has_no_such_fields() -> None:
    plain = PARTITION._replace(gpus={}, free_gpus={}, most_gpus=0)
    text = page([plain], [], {"default": "Python"}, PROPOSED, most_minutes=60, ended="")
    assert 'name="account"' not in text
    assert 'name="gpu_type"' not in text
    assert 'name="gpus" value="0" min="0" max="0"' in text
    assert 'name="hours" value="1"' in text


def test_hours_are_converted_to_minutes() -> None:
    form = {"partition": ["batch"], "gpus": ["1"], "cpus": ["2"], "hours": ["1.5"], "environment": ["default"]}
    chosen = choices_from_form(form, 720)
    assert (chosen["minutes"], chosen["partition"], chosen["account"]) == ("90", "batch", "")
    for hours in ("", "13", "0", "-1", "nan", "inf", "two"):
        with pytest.raises(ValueError, match="hours: "):
            choices_from_form(form | {"hours": [hours]}, 720)
