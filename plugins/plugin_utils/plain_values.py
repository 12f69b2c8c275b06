"""Values without templates, which need nobody who works them out."""

from __future__ import annotations

from typing import Any

__all__ = ["NotPlainError", "plain", "settled"]

_UNTAGGED = frozenset({str, int, float, bool, list, dict, type(None)})
_HARMLESS_TAGS = frozenset({"Origin", "TrustedAsTemplate"})
# Names, because these classes are Ansible's own affair: where it has others, nothing is gained and nothing lost.
_LAZY = frozenset({"_AnsibleLazyTemplateList", "_AnsibleLazyTemplateDict"})
_LAZY_VALUE = "_LazyValue"


class NotPlainError(Exception):
    """A value that Ansible has to work out."""


def settled(argument: Any) -> Any:  # noqa: ANN401
    """Return a list or mapping that Ansible would work out item by item, each time it is read, as a common one.

    One with a template in it is returned as it is.
    """
    if type(argument).__name__ not in _LAZY:
        return argument
    try:
        return plain(argument)
    except NotPlainError:
        return argument


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value that has no template, as templating would leave it.

    Raises:
        NotPlainError: it has one, or is none of the kinds of values that inventories have.
    """
    kind = type(value)
    if kind.__name__ == _LAZY_VALUE:
        value = value.value
        kind = type(value)
    if kind not in _UNTAGGED:
        # A value from a vault, or one that warns of itself, is Ansible's business.
        tags = getattr(value, "_ansible_tags_mapping", None)
        if tags is None or any(tag.__name__ not in _HARMLESS_TAGS for tag in tags):
            raise NotPlainError
    if isinstance(value, str):
        if "{" in value or value.startswith("#"):
            raise NotPlainError
        return value
    # Past what the class of a lazy one does about it.
    if isinstance(value, list):
        return [plain(item) for item in list.__iter__(value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in dict.items(value)}
    if isinstance(value, (int, float, type(None))):
        return value
    raise NotPlainError
