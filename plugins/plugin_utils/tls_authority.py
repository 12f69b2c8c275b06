"""The cluster's TLS certificate authority, stored as files on the provisioning host, and custom certificates."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.common.problems import Problem, make_problem
from .access.tls_certificate import authority_certificate, end_of, first_end, make_authority
from .access.tls_custom_certificate import KINDS, content_problems, declaration_problems
from .secret_store import SecretError, read_secret, store_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CURRENT", "NEXT", "PREVIOUS", "judge", "signing_authority", "trusted_certificates"]

# Key and certificate are in one file, so that they match even if several processes create them.
CURRENT, NEXT, PREVIOUS = "tls_ca", "tls_ca_next", "tls_ca_previous"


def signing_authority(directory: Path, cluster: str, now: int, *, create: bool = True, name: str = CURRENT) -> str:
    """Return the signing key and its certificate as PEM, and create them if they do not exist.

    Concurrent processes all get the same ones.

    Args:
        directory: the secrets directory.
        cluster: name of the cluster, for the certificate's common name.
        now: seconds since 1970.
        create: if false, a missing authority is generated for this call only and not written.
        name: file name; NEXT for the successor.

    Raises:
        SecretError: if the file cannot be read, written or trusted.
    """
    path = directory / name
    try:
        return _authority(path)
    except FileNotFoundError:
        fresh = make_authority(cluster, now)
    if not create:
        return fresh
    store_secret(path, fresh.strip())
    return _authority(path)


def trusted_certificates(directory: Path, authority: str) -> str:
    """Return the certificates that hosts trust as PEM: the current one, and in a rotation the next or previous one.

    Raises:
        SecretError: if a file cannot be read or trusted.
    """
    found = [authority_certificate(authority)]
    for name in (NEXT, PREVIOUS):
        with contextlib.suppress(FileNotFoundError):
            found.append(authority_certificate(_authority(directory / name)))
    return "".join(dict.fromkeys(found))


def _authority(path: Path) -> str:
    text = read_secret(path, 1)
    try:
        authority_certificate(text)
    except ValueError as exc:
        message = f"secret {path}: {exc}: restore it from a backup, or remove it to create a new authority"
        raise SecretError(message) from exc
    return f"{text}\n"


_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_files(host: str, files: Mapping[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    """Return the file contents, and a problem for each unreadable file and for a key that others can access."""
    texts, problems = {}, []
    for kind, meaning in KINDS.items():
        path, key = Path(str(files[kind])), f"tls_custom_certificate.{kind}"
        try:
            texts[kind] = path.read_text(encoding="ascii")
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            remedy = f"copy {meaning} to this path on the provisioning host, or clear tls_custom_certificate"
            problems.append(make_problem([host], key, f"file {path} does not exist", remedy))
        except (OSError, UnicodeDecodeError) as exc:
            remedy = "make it a PEM file that the user who runs busbar can read"
            problems.append(make_problem([host], key, f"{path} cannot be read ({exc})", remedy))
        else:
            if kind == "key" and mode & _OTHERS:
                remedy = f"chmod 0600 {path}, and replace the key if it was read"
                problems.append(
                    make_problem([host], key, f"{path} is accessible to other users (mode {mode:04o})", remedy)
                )
    return texts, problems


def judge(host: str, files: Mapping[str, Any], reached_by: Sequence[str], now: int) -> dict[str, Any]:
    """Return the content of a host's custom certificate files, or only `problems`."""
    problems = declaration_problems(host, files)
    if problems:
        return {"problems": problems}
    texts, problems = read_files(host, files)
    problems = problems or content_problems(host, texts, reached_by=reached_by, now=now)
    if problems:
        return {"problems": problems}
    found = {"certificate": texts["certificate"], "key": texts["key"], "trusted": texts["ca"]}
    ends = {"not_after": end_of(texts["certificate"]), "trusted_not_after": first_end(texts["ca"])}
    return {"problems": [], **found, **ends}
