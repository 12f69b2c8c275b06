"""Settings of all unit tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    import pytest

# The duration of an example depends on the load of the machine.
settings.register_profile("busbar", deadline=None)
settings.load_profile("busbar")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow files, except those of part K/N in BUSBAR_TEST_SLOW."""
    if not os.environ.get("BUSBAR_TEST_SLOW"):
        return
    number, count = map(int, os.environ["BUSBAR_TEST_SLOW"].split("/"))
    slow = sorted({item.path for item in items if item.get_closest_marker("slow")})
    left_out = set(slow) - set(slow[number - 1 :: count])
    config.hook.pytest_deselected(items=[item for item in items if item.path in left_out])
    items[:] = [item for item in items if item.path not in left_out]
