"""Tests of suggestions for misspelt names."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.near_names import near_name, near_option
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import declared_options

OPTIONS = sorted(declared_options())


def test_other_word_order_and_abbreviations_are_matched_within_a_role() -> None:
    assert near_option("ssh_login_password", OPTIONS) == "ssh_password_login"
    assert near_option("slurm_db_password", OPTIONS) == "slurm_database_password"


@pytest.mark.parametrize(
    "written",
    [
        "mig_manager_profile",
        "slurm_autodetect_nvml",
        "slurm_restrict_node_access",
        "nis_domain",
        "grafana_k8s",
        "slurm_mode",
        "sssd_started",
        "nvidia_driver_skip_reboot",
        "room",
    ],
)
def test_distant_name_gets_no_suggestion(written: str) -> None:
    assert near_option(written, OPTIONS) == ""


def test_each_option_with_a_missing_letter_is_matched() -> None:
    """A name that is another option without the letter is not misspelt."""
    missed = [
        (name, other)
        for name in OPTIONS
        for other in [name[: len(name) // 2] + name[len(name) // 2 + 1 :]]
        if other not in OPTIONS and not near_name(other, OPTIONS)
    ]
    assert missed == []
