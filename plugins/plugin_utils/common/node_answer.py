"""What kept a node from answering, and how its clock compares: pure helpers of the action `node_info`."""

from __future__ import annotations

import re

__all__ = ["clock_offset", "failure_kind", "short_message"]

_BECOME = re.compile(
    r"(incorrect|missing) \S+ password|privilege escalation|become|sudo: |not in the sudoers|a password is required"
    r"|sorry, try again|doas: |su: ",
    re.IGNORECASE,
)
_PYTHON = re.compile(
    r"interpreter .* was not found|python\d?: (command )?not found|no python interpreters", re.IGNORECASE
)
# What nologin(8) says, of util-linux and of shadow, instead of a shell.
_SHELL = re.compile(r"this account is currently not available", re.IGNORECASE)
_NOISE = re.compile(
    r"^(task failed: |data could not be sent to remote host.*?: |failed to connect to the host via ssh: )+",
    re.IGNORECASE,
)
_PLACE = re.compile(r"^ssh: (?:connect to host \S+ port \d+: )?|^connect to host \S+ port \d+: |^\S+@\S+: ")


def clock_offset(before: float, began: float, ended: float, after: float) -> float:
    """Return by how many seconds another clock is ahead at least; negative if it is behind.

    Args:
        before: our time before the question.
        began: the other clock's time at the start of its answer.
        ended: the other clock's time at the end of its answer.
        after: our time after the answer.
    """
    if ended > after:
        return round(ended - after, 3)
    return round(min(0.0, began - before), 3)


def failure_kind(text: str) -> str:
    """Return `shell`, `python`, `become` or `module`: the step that failed, told from the error's text."""
    if _SHELL.search(text):
        return "shell"
    if _PYTHON.search(text):
        return "python"
    return "become" if _BECOME.search(text) else "module"


def short_message(text: str, address: str = "") -> str:
    """Return the telling line of an error, without what differs from host to host, so that equal causes are equal."""
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
