"""Values of variables, for lookups that read them without an option."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleLookupError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_mode", "secrets_directory"]


def secrets_directory(templar: Any, variables: Mapping[str, Any], given: str | None) -> Path:  # noqa: ANN401 - as it is
    """Return the absolute path of the secrets: the one given, else that of the variable `cluster_secrets_dir`.

    Raises:
        AnsibleLookupError: when there is no absolute path.
    """
    # Not by an option of the plugin: a variable would reach it before its template is filled in.
    directory = Path(given or templar.template(variables.get("cluster_secrets_dir", "")))
    if not directory.is_absolute():
        message = f"the secrets' directory {str(directory)!r} is not absolute: set cluster_secrets_dir"
        raise AnsibleLookupError(message)
    return directory


def check_mode(templar: Any, variables: Mapping[str, Any]) -> bool:  # noqa: ANN401 - as Ansible has it
    """Return whether nothing may be changed."""
    return bool(templar.template(variables.get("ansible_check_mode", False)))
