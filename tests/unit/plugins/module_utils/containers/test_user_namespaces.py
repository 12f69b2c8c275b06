"""Tests of the settings that forbid user namespaces, and of the sysctl line that allows them."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.modules.container_info import (
    SETTINGS,
    user_namespace_problems,
)

FREE: dict[str, int | None] = {SETTINGS[0]: 60000, SETTINGS[1]: 1, SETTINGS[2]: 0}
REFUSED = "unshare: unshare failed: Operation not permitted"


def test_successful_trial_outweighs_the_settings() -> None:
    """AppArmor does not restrict programs that have a profile."""
    assert user_namespace_problems("gpu1", "apptainer_enabled", FREE | {SETTINGS[2]: 1}) == []


@pytest.mark.parametrize(
    ("settings", "problem", "remedy"),
    [
        ({SETTINGS[0]: 0}, "user.max_user_namespaces is 0", "`user.max_user_namespaces = 15000`"),
        ({SETTINGS[1]: 0}, "kernel.unprivileged_userns_clone is 0", "`kernel.unprivileged_userns_clone = 1`"),
        (
            {SETTINGS[2]: 1},
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "`kernel.apparmor_restrict_unprivileged_userns = 0`",
        ),
        ({SETTINGS[1]: None, SETTINGS[2]: None}, "Operation not permitted", "CONFIG_USER_NS"),
    ],
)
def test_forbidding_setting_is_named(settings: dict[str, int | None], problem: str, remedy: str) -> None:
    (found,) = user_namespace_problems("gpu1", "apptainer_enabled", FREE | settings, REFUSED)
    assert (found["hosts"], found["key"]) == (["gpu1"], "apptainer_enabled")
    assert problem in found["problem"]
    assert remedy in found["remedy"]


@pytest.mark.parametrize(
    ("settings", "refused"),
    [({SETTINGS[2]: 1}, False), ({SETTINGS[2]: 1, SETTINGS[0]: 0}, True), ({}, True)],
    ids=["AppArmor alone", "AppArmor and a limit", "something else"],
)
def test_profile_only_lifts_the_apparmor_restriction(settings: dict[str, int | None], *, refused: bool) -> None:
    """On Ubuntu 24.04 a package with an AppArmor profile for its program needs no sysctl."""
    found = user_namespace_problems("gpu1", "apptainer_enabled", FREE | settings, REFUSED, allowed=True)
    assert bool(found) is refused
