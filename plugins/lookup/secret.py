"""Lookup of a secret that is made at its first use."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author: busbar contributors
short_description: A secret kept on the provisioning host, made at its first use
description:
  - Returns the text of the file O(_terms) in O(directory).
  - A file that is missing is made with O(bytes) random bytes, mode 0600.
  - Many hosts may ask at once and all get the same secret.
  - In check mode a missing secret is not written; a value made up for that one call is returned.
  - Fails when the file is unreadable, no regular file, too short, or open to others.
options:
  _terms:
    description: Plain file names.
    required: true
    type: list
    elements: str
  bytes:
    description: Random bytes in the secret; a shorter one is refused.
    type: int
    default: 32
  encoding:
    description: How the random bytes are written as text.
    type: str
    choices: [urlsafe, hex]
    default: urlsafe
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
- name: Write the munge key
  ansible.builtin.copy:
    content: "{{ lookup('busbar.cluster.secret', 'munge.key', bytes=128) }}"
    dest: /etc/munge/munge.key
    mode: "0400"
  no_log: true
"""

RETURN = r"""
_raw:
  description: One secret per term.
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils.secret_store import get_secret  # noqa: TID252 - the collection's name stands in no import


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.secret`."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return one secret per term.

        Raises:
            AnsibleLookupError: when a secret cannot be read, written or trusted.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        # Read here and not by the option: a variable of an option reaches the plugin before its template is filled in.
        directory = Path(self.get_option("directory") or self._value(known, "cluster_secrets_dir", default=""))
        if not directory.is_absolute():
            message = f"the secrets' directory {str(directory)!r} is not absolute: set cluster_secrets_dir"
            raise AnsibleLookupError(message)
        create = not self._value(known, "ansible_check_mode", default=False)
        size, encoding = self.get_option("bytes"), self.get_option("encoding")
        try:
            return [get_secret(directory, term, size, encoding, create=create) for term in terms]
        except ValueError as exc:
            raise AnsibleLookupError(str(exc)) from exc

    def _value(self, variables: dict[str, Any], name: str, *, default: object) -> Any:  # noqa: ANN401 - as Ansible has it
        """Return the value of a variable with its templates filled in."""
        return self._templar.template(variables.get(name, default))
