"""Read a host's certificate, key and authority from files on the provisioning host."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.common.problems import Problem, make_problem
from .access.tls_certificate import end_of, first_end
from .access.tls_custom_certificate import KINDS, content_problems, declaration_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["judge"]

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
    """Return the content of one host's files, or only `problems`."""
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
