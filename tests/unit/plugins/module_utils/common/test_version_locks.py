"""Tests of dnf versionlock lines: their package and the versions that they hold."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_changes import (
    holds,
    lock_name,
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("nvidia-driver-cuda-3:580.95.05-1.el9.*", "nvidia-driver-cuda"),
        ("cuda-toolkit-12-8-0:12.8.1-1.*", "cuda-toolkit-12-8"),
        ("libnvidia-nscq-570-0:570.133.20-1.x86_64", "libnvidia-nscq-570"),
        ("nvidia-driver-cuda-570.*", "nvidia-driver-cuda"),
        ("nvidia-driver-cuda-570.133.20-1.el9", "nvidia-driver-cuda"),
        ("nvlsm", "nvlsm"),
    ],
)
def test_lock_names_its_package(line: str, name: str) -> None:
    assert lock_name(line) == name


@pytest.mark.parametrize(
    ("line", "version", "held"),
    [
        ("nvidia-driver-3:580.95.05-1.el9.*", "3:580.95.05-1.el9", True),
        ("nvidia-driver-3:580.95.05-1.el9.x86_64", "3:580.95.05-1.el9", True),
        ("nvidia-driver-3:580.95.05-1.el9", "3:580.95.05-1.el9", True),
        ("nvidia-driver-0:580.95.05-1.el9.*", "580.95.05-1.el9", True),
        # A lock of another version prevents this one.
        ("nvidia-driver-3:570.133.20-1.el9.*", "3:580.95.05-1.el9", False),
        ("nvidia-driver-3:580.95.05-1.el9.*", "3:580.95.05-1.el9_1", False),
        ("nvidia-driver-580.*", "3:580.95.05-1.el9", False),
        ("nvidia-driver", "3:580.95.05-1.el9", False),
        ("nvidia-driver-cuda-3:580.95.05-1.el9.*", "3:580.95.05-1.el9", False),
    ],
)
def test_only_a_lock_of_the_exact_version_holds(line: str, version: str, *, held: bool) -> None:
    assert holds(line, "nvidia-driver", version) is held
