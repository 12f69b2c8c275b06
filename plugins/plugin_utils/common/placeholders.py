"""Detect placeholder values copied from examples."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

# Reserved names: RFC 2606, sections 2 and 3.
_NOWHERE = re.compile(r"(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid)\.?$", re.IGNORECASE)
_WORDS = re.compile(
    r"(?:change|replace|fill)[-_ ]?(?:me|this|in)\b.*|todo\b.*|fixme\b.*|placeholder|tbd|x{3,}|\.{3,}|…"
    r"|(?:your|my)[-_ ].*(?:here|token|password|url|address|server|channel|webhook)",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"<[^<>]*>|\{\{[^{}]*\}\}|\$\{[^{}]*\}")
# Slack's own examples: https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX
_SLACK = re.compile(r"/services/?$|/T0+/|/B0+/|/X{3,}|/(?:YOUR|\.\.\.)", re.IGNORECASE)


def host_placeholder(host: str) -> str:
    """Return why a host name is a placeholder, or '' if it is not."""
    if _NOWHERE.search(host):
        return "is in a domain reserved for examples, such as example.com"
    return ""


def placeholder(value: object) -> str:
    """Return why a value, such as a URL or a mail address, is a placeholder, or '' if it is not.

    The result does not contain the value, because it may be a secret.
    """
    text = str(value if value is not None else "").strip()
    if not text:
        return "is empty"
    if _BRACKETS.search(text):
        return "contains an unfilled placeholder in brackets"
    if _WORDS.fullmatch(text) or re.search(r"change[-_]?me", text, re.IGNORECASE):
        return "is a placeholder such as CHANGEME"
    if "://" not in text:
        return host_placeholder(text.rpartition("@")[2].partition(":")[0])
    return _address_placeholder(text)


def _address_placeholder(text: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:  # other checks report invalid URLs
        return ""
    if host == "hooks.slack.com" and _SLACK.search(parts.path):
        return "is the placeholder of Slack's documentation (hooks.slack.com/services/XXX)"
    return host_placeholder(host)
