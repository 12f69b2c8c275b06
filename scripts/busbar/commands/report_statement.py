"""`busbar report sign` and `verify`: sign and verify a statement of a validation's tests, limits and hardware.

The signature is an OpenSSH signature (PROTOCOL.sshsig) in the namespace busbar-report. ssh-keygen creates and verifies
it, with a key on disk, in an agent or on a token, so that it can be verified without busbar.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from datetime import datetime, timezone
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.signed_statement import (
    read_statement,
    statement,
    statement_text,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.tested_systems import counted_parts
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import FILES

from busbar.commands.report_selection import LATEST, add_report_options, find_report, readable_report, site_of
from busbar.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

NAMESPACE = "busbar-report"
STATEMENT = "statement.json"
SIGNATURE = f"{STATEMENT}.sig"
# The site's signing key, created on first use.
KEY = "report_key"
_REFUSED = 1
# `busbar report render` regenerates these files from report.json.
_UNSIGNED = frozenset({STATEMENT, SIGNATURE, *FILES})


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands."""
    signed = commands.add_parser(
        "sign",
        help=f"write {STATEMENT} and its SSH signature",
        description="Signs a statement of the tests, their limits, the serial numbers of the hardware, and the digests "
        "of report.json and of all outputs.",
    )
    signed.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help=f"SSH key; for a key in an agent its public key (default: the site's key, secrets/{KEY})",
    )
    signed.set_defaults(run=_sign)
    verified = commands.add_parser(
        "verify",
        help="check the signed statement of a report, and its files",
        description="Exit codes: 0 the signature is valid and the files are unchanged, 1 rejected, 2 the statement or "
        "the trusted keys are missing.",
    )
    verified.add_argument(
        "--allowed-signers",
        type=Path,
        metavar="FILE",
        help="allowed signers file, see ssh-keygen(1) (default: the key of the site)",
    )
    verified.add_argument("--signer", metavar="NAME", help="required signer (default: any allowed signer)")
    verified.set_defaults(run=_verify)
    for command in (signed, verified):
        command.add_argument("report", nargs="?", default=LATEST, metavar="REPORT")
        add_report_options(command)


def _ssh_keygen(*arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen with English messages.

    Raises:
        UsageError: ssh-keygen is not installed.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        message = "ssh-keygen not found: install the OpenSSH client, 8.2 or newer"
        raise UsageError(message)
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run([program, *arguments], check=False, input=given, capture_output=True, env=environment)


def _ssh_keygen_error(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the error message from ssh-keygen on one line."""
    lines = (done.stderr or done.stdout).decode(errors="replace").split("\n")
    return printable("; ".join(line.strip() for line in lines if line.strip())) or f"exit code {done.returncode}"


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _signed_files(folder: Path) -> Iterator[str]:
    """Yield the names of the files of a report, except those that `busbar report render` regenerates."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in _UNSIGNED and not path.is_symlink() and path.is_file():
            yield name


def _sign(args: argparse.Namespace) -> int:
    folder = find_report(args, args.report)
    report = readable_report(folder)
    named = {test["output"] for test in report["tests"] if test["output"]}
    try:
        files = {name: _digest(folder / name) for name in _signed_files(folder)}
    except OSError as exc:
        message = f"cannot read {exc.filename}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    missing = sorted(named - files.keys())
    if missing:
        message = f"not signed: report.json refers to outputs that are missing in {folder}: {', '.join(missing[:5])}"
        raise UsageError(message)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = statement(report, files, signed=now, version=_version())
    text = statement_text(found).encode()
    key, line = _key(args)
    done = _ssh_keygen("-Y", "sign", "-n", NAMESPACE, "-f", key, given=text)
    if done.returncode or not done.stdout:
        message = f"not signed with {key}: {_ssh_keygen_error(done)}"
        raise UsageError(message)
    try:
        for name, content in ((STATEMENT, text), (SIGNATURE, done.stdout)):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o644)
    except OSError as exc:
        message = f"cannot write into {folder}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    for words in _summary(found):
        print(words)
    if line:
        print(f'allowed_signers of the verifier: busbar namespaces="{NAMESPACE}" {line}')
    print(f"signed: {folder / STATEMENT}")
    return 0


def _version() -> str:
    try:
        return metadata.version("busbar")
    except metadata.PackageNotFoundError:
        return "checkout"


def _key(args: argparse.Namespace) -> tuple[Path, str]:
    """Return the signing key, and its public line for allowed_signers; the line is empty with --key.

    Raises:
        UsageError: the key does not exist.
    """
    if args.key:
        if not args.key.is_file():
            message = (
                f"--key {args.key}: file not found: run ssh-keygen -t ed25519, or omit --key to use the site's key"
            )
            raise UsageError(message)
        return args.key, ""
    return _site_key(args, create=True)


def _site_key(args: argparse.Namespace, *, create: bool) -> tuple[Path, str]:
    """Return the site's signing key and its public line.

    Raises:
        UsageError: the key does not exist, or cannot be used.
    """
    other = "--key FILE signs with another key" if create else "--allowed-signers FILE lists the trusted keys"
    try:
        path = site_of(args) / "secrets" / KEY
    except UsageError as exc:
        message = f"{exc}; {other}"
        raise UsageError(message) from exc
    if find_spec("cryptography") is None:
        message = f"the site's key requires the Python package cryptography: pip install 'busbar[ansible]'; {other}"
        raise UsageError(message)
    from ansible_collections.busbar.cluster.plugins.plugin_utils.access.ssh_certificate import (  # noqa: PLC0415 - needs cryptography
        make_authority,
        public_line,
    )
    from ansible_collections.busbar.cluster.plugins.plugin_utils.secret_store import (  # noqa: PLC0415 - as above
        read_secret,
        store_secret,
    )

    try:
        if create and not path.exists():
            store_secret(path, make_authority().strip())
        return path, public_line(read_secret(path, 1))
    except FileNotFoundError as exc:
        message = f"{path}: the site's key does not exist: list the trusted keys with --allowed-signers"
        raise UsageError(message) from exc
    except (OSError, ValueError) as exc:
        message = f"{path}: {exc.strerror}; {other}" if isinstance(exc, OSError) else f"{path}: {exc}"
        raise UsageError(message) from exc


def _summary(found: dict[str, Any]) -> list[str]:
    """Return the verdict of a statement, and its nodes with and without serial numbers."""
    parts = found["parts"]
    words = printable(f"{found['cluster']}, {found['validated']}: {found['reason']}")
    lines = [f"{printable(found['verdict'])}  {words}"]
    if parts:
        lines.append(f"serial numbers of {counted_parts(parts)} on {fold_hosts(list(parts))}")
    if found["parts_unknown"]:
        lines.append(f"without serial numbers: {fold_hosts(found['parts_unknown'])}")
    return lines


def _verify(args: argparse.Namespace) -> int:
    folder = find_report(args, args.report)
    try:
        raw, signature = (folder / STATEMENT).read_bytes(), folder / SIGNATURE
        signature.open("rb").close()
    except FileNotFoundError as exc:
        message = f"not signed ({exc.filename} does not exist); sign with busbar report sign"
        raise UsageError(message) from exc
    except OSError as exc:
        message = f"cannot read {exc.filename}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    with tempfile.TemporaryDirectory() as place:
        who, problems = _signer(args, raw, signature, _signers(args, Path(place)))
    if not problems:
        try:
            found = read_statement(raw)
        except ValueError as exc:
            problems = [f"{STATEMENT}: {exc}"]
        else:
            problems = list(_changed(folder, found["files"]))
    for problem in problems:
        print(f"refused: {problem}")
    if problems:
        return _REFUSED
    for words in _summary(found):
        print(words)
    for name in sorted(set(_signed_files(folder)) - found["files"].keys()):
        print(f"not covered by the signature: {printable(name)}")
    print(f"valid: {who} signed it at {printable(found['signed'])}, and all {len(found['files'])} files are unchanged")
    return 0


def _signers(args: argparse.Namespace, place: Path) -> Path:
    """Return the allowed signers file.

    Raises:
        UsageError: the file does not exist.
    """
    if args.allowed_signers:
        if not args.allowed_signers.is_file():
            message = f"--allowed-signers {args.allowed_signers}: file not found: see ALLOWED SIGNERS in ssh-keygen(1)"
            raise UsageError(message)
        return Path(args.allowed_signers)
    _path, line = _site_key(args, create=False)
    own = place / "allowed_signers"
    own.write_text(f'busbar namespaces="{NAMESPACE}" {line}\n', encoding="utf-8")
    return own


def _signer(args: argparse.Namespace, raw: bytes, signature: Path, signers: Path) -> tuple[str, list[str]]:
    """Return the signer of a statement, or the reasons why the signature is invalid."""
    who = args.signer
    if not who:
        found = _ssh_keygen("-Y", "find-principals", "-s", signature, "-f", signers)
        names = found.stdout.decode(errors="replace").splitlines()
        if found.returncode or not names:
            where = args.allowed_signers or "the site's key"
            return "", [f"{SIGNATURE} is not a signature of a trusted key ({where}): {_ssh_keygen_error(found)}"]
        who = names[0]
    done = _ssh_keygen("-Y", "verify", "-n", NAMESPACE, "-I", who, "-s", signature, "-f", signers, given=raw)
    if done.returncode:
        return "", [f"{STATEMENT} has no valid signature of {printable(who)} ({NAMESPACE}): {_ssh_keygen_error(done)}"]
    return printable(who), []


def _changed(folder: Path, files: dict[str, str]) -> Iterator[str]:
    """Yield the files that differ from the signed ones."""
    for name, digest in files.items():
        path = folder / name
        try:
            # Ignore names outside the folder of the report.
            if ".." in Path(name).parts or Path(name).is_absolute() or path.is_symlink():
                yield f"{printable(name)} does not belong to the report"
            elif _digest(path) != digest:
                yield f"{printable(name)} was changed after it was signed"
        except FileNotFoundError:
            yield f"{printable(name)} is missing"
        except OSError as exc:
            yield f"{printable(name)} cannot be read: {exc.strerror or exc}"
    if "report.json" not in files:
        yield "report.json was not signed"
