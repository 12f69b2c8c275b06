"""Classify connection failures and compute clock offsets, for the `node_info` action."""

from __future__ import annotations

import re

_BECOME = re.compile(
    r"(incorrect|missing) \S+ password|privilege escalation|become|sudo: |not in the sudoers|a password is required"
    r"|sorry, try again|doas: |su: ",
    re.IGNORECASE,
)
_PYTHON = re.compile(
    r"interpreter .* was not found|python\d?: (command )?not found|no python interpreters", re.IGNORECASE
)
# Output of nologin(8) from util-linux and shadow.
_SHELL = re.compile(r"this account is currently not available", re.IGNORECASE)
_NOISE = re.compile(
    r"^(task failed: |data could not be sent to remote host.*?: |failed to connect to the host via ssh: )+",
    re.IGNORECASE,
)
_PLACE = re.compile(r"^ssh: (?:connect to host \S+ port \d+: )?|^connect to host \S+ port \d+: |^\S+@\S+: ")


def clock_offset(before: float, began: float, ended: float, after: float) -> float:
    """Return the minimum number of seconds by which a remote clock is ahead; negative if it is behind.

    Args:
        before: local time before the request.
        began: remote time at the start of the answer.
        ended: remote time at the end of the answer.
        after: local time after the answer.
    """
    if ended > after:
        return round(ended - after, 3)
    return round(min(0.0, began - before), 3)


def failure_kind(text: str) -> str:
    """Return the failed step according to the error text: `shell`, `python`, `become` or `module`."""
    if _SHELL.search(text):
        return "shell"
    if _PYTHON.search(text):
        return "python"
    return "become" if _BECOME.search(text) else "module"


def short_message(text: str, address: str = "") -> str:
    """Return the relevant line of an error without host-specific parts, so that equal errors can be grouped."""
    lines = [_NOISE.sub("", line.strip()) for line in text.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Warning:", "debug", "@@@"))]
    if not telling:
        return "no message"
    signs = (_SHELL, _BECOME, _PYTHON)
    line = next((line for line in telling if any(sign.search(line) for sign in signs)), telling[-1])
    line = _PLACE.sub("", line)
    if address:
        line = re.sub(rf"(?<![\w.]){re.escape(address)}(?![\w.])", "the host", line)
    return line.rstrip(". ")
