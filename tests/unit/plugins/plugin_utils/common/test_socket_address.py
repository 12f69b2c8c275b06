"""Address and port as daemons write them."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.socket_address import socket_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.0.0.1", "10.0.0.1:80"), ("gpu1", "gpu1:80"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80")],
)
def test_address_and_port(address: str, expected: str) -> None:
    assert socket_address(address, 80) == expected
