"""Base class for lookups that read the cluster's secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import IGNORED
from ansible.plugins.lookup import LookupBase

if TYPE_CHECKING:
    from collections.abc import Mapping


class SecretsLookup(LookupBase):  # type: ignore[misc]  # Ansible is untyped
    """A lookup with the option `directory`, which defaults to the variable `cluster_secrets_dir`."""

    def open_secrets(self, variables: dict[str, Any] | None, options: dict[str, object]) -> tuple[Path, bool]:
        """Set the options, and return the secrets directory and whether files may be created in it.

        Raises:
            AnsibleLookupError: if the path is not absolute, or Ansible would read the secrets as inventory.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=options)
        # The variable is read directly, because as a plugin option it would not be templated.
        declared = self._templar.template(known.get("cluster_secrets_dir", ""))
        directory = Path(self.get_option("directory") or declared)
        if not directory.is_absolute():
            message = f"the secrets directory {str(directory)!r} is not an absolute path: set cluster_secrets_dir"
            raise AnsibleLookupError(message)
        for source in known.get("ansible_inventory_sources") or []:
            if _is_read(directory, Path(source)):
                message = (
                    f"the secrets directory {directory} is inside the inventory {source}, where Ansible reads every"
                    " file: pass the inventory file instead of its folder, or set cluster_dir to another folder"
                )
                raise AnsibleLookupError(message)
        return directory, not self._templar.template(known.get("ansible_check_mode", False))


def _is_read(directory: Path, source: Path) -> bool:
    """Return whether a directory lies in an inventory folder, whose files Ansible reads as inventory."""
    if directory == source or not directory.is_relative_to(source) or not source.is_dir():
        return False
    return not IGNORED.search(directory.relative_to(source).parts[0].encode())


def is_taken(name: str, option: str | None, variables: Mapping[str, Any]) -> bool:
    """Return whether the secret file is used: the option is unset, or its template contains the name of the secret."""
    # Templating would generate the secret.
    return not option or option not in variables or name in str(variables[option])
