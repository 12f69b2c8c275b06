"""What the lookups share that read the secrets of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

__all__ = ["SecretsLookup"]


class SecretsLookup(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """A lookup with the option `directory`, by default the variable `cluster_secrets_dir`."""

    def open_secrets(self, variables: dict[str, Any] | None, options: dict[str, object]) -> tuple[Path, bool]:
        """Take the options in; return the secrets' directory and whether anything may be made in it.

        Raises:
            AnsibleLookupError: when there is no absolute path.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=options)
        # Not by an option of the plugin: a variable would reach it before its template is filled in.
        declared = self._templar.template(known.get("cluster_secrets_dir", ""))
        directory = Path(self.get_option("directory") or declared)
        if not directory.is_absolute():
            message = f"the secrets' directory {str(directory)!r} is not absolute: set cluster_secrets_dir"
            raise AnsibleLookupError(message)
        return directory, not self._templar.template(known.get("ansible_check_mode", False))
