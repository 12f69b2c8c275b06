"""Files of an inventory that this run cannot decrypt: Ansible names neither file nor remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString

from .inventory_yaml import variable_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ansible.parsing.dataloader import DataLoader

__all__ = ["vault_problems"]

_VAULT = "$ANSIBLE_VAULT"
_REMEDY = "give --ask-vault-pass (-J) or --vault-password-file FILE, or set vault_password_file in ansible.cfg"


def vault_problems(sources: Sequence[str], playbooks: Sequence[Path], loader: DataLoader) -> list[str]:
    """Return one line for each encrypted file, or file with an encrypted value, that cannot be decrypted.

    Args:
        sources: the inventory, as given with `-i`.
        playbooks: variables beside them are read as well.
        loader: Ansible's, which has the passwords of this run.
    """
    problems = []
    for path in dict.fromkeys(path for playbook in playbooks for path in variable_files(sources, playbook)):
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        inline = next((number for number, line in enumerate(text.splitlines(), 1) if "!vault" in line), 0)
        if not (inline or text.startswith(_VAULT)):
            continue
        try:
            _decrypt_first(loader.load_from_file(str(path), cache="none"))
        except AnsibleError as exc:
            where = f"{path}:{inline}: this value is encrypted" if inline else f"{path}: this file is encrypted"
            fault = "and no password is given" if "no vault secrets found" in str(exc) else f"({_first_line(exc)})"
            problems.append(f"{where} {fault}: {_REMEDY}")
    return problems


def _decrypt_first(data: object) -> bool:
    """Decrypt the first encrypted value within `data`; returns whether there is one."""
    if isinstance(data, EncryptedString):
        return bool(str(data)) or True
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return any(_decrypt_first(value) for value in values)


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n", 1)[0]
