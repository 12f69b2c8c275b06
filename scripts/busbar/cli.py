"""Entry point of the command `busbar`."""

from __future__ import annotations


def main() -> int:
    return 0
