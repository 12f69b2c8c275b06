"""Fixtures of the engine's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.option_names_in_messages import option_names

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _names_of_the_playbook() -> Iterator[None]:
    """Name options in messages as validate.yml does."""
    with option_names("validation_{}".format):
        yield
