"""Run the programs that a backup needs, without a shell."""

from __future__ import annotations

import re
import subprocess
from typing import IO, TYPE_CHECKING, NamedTuple

from ..slurm.releases import parse_candidates
from .settings import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .settings import Settings

__all__ = [
    "Outcome",
    "answer",
    "database_bytes",
    "directory_entries",
    "dump_accounting",
    "dump_directory",
    "ended",
    "load_accounting",
    "load_directory",
    "output_or_empty",
    "query",
    "table_names",
    "table_rows",
]

_NAME = re.compile(r"[\w$-]+")


class Outcome(NamedTuple):
    """Exit status, output and errors of a program."""

    status: int
    output: str
    errors: str


def ended(
    command: Sequence[str],
    *,
    given: str | None = None,
    read: IO[bytes] | None = None,
    write: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program and wait for it.

    Args:
        command: program and arguments.
        given: text for its standard input.
        read: file for its standard input.
        write: file for its output.
        environment: environment variables; None inherits those of this process.

    Raises:
        BackupError: the program cannot be started.
    """
    source: dict[str, object] = {"input": (given or "").encode()} if read is None else {"stdin": read}
    try:
        done = subprocess.run(  # type: ignore[call-overload]  # noqa: S603
            list(command),
            stdout=write or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
            **source,
        )
    except OSError as error:
        message = f"{command[0]}: {error}"
        raise BackupError(message) from error
    output, errors = ((text or b"").decode(errors="replace") for text in (done.stdout, done.stderr))
    return Outcome(done.returncode, output, errors.strip())


def answer(command: Sequence[str], given: str | None = None) -> str:
    """Return the output of a program.

    Raises:
        BackupError: the program failed.
    """
    return _require_success(command, ended(command, given=given))


def output_or_empty(command: Sequence[str]) -> str:
    """Return the output of a program regardless of its exit status; '' if it cannot be started."""
    try:
        return ended(command).output.strip()
    except BackupError:
        return ""


def installed_release() -> str:
    """Return the installed Slurm release, or ''."""
    # A host with only slurmdbd has no slurm.conf, without which scontrol prints nothing.
    for command in (["scontrol", "--version"], ["slurmdbd", "-V"]):
        found = re.search(r"\d+\.\d+(\.\d+)?", output_or_empty(command))
        if found:
            return found[0]
    return ""


def offered_release() -> str:
    """Return the Slurm release that the package manager offers, or ''."""
    offered = parse_candidates(output_or_empty(["apt-cache", "policy", "slurmctld"])).get("slurmctld", ("", ""))[1]
    answer = offered or output_or_empty(
        ["dnf", "-q", "repoquery", "--latest-limit=1", "--queryformat=%{version}\n", "slurm-slurmctld"]
    )
    found = re.search(r"\d+\.\d+(\.\d+)?", answer)
    return found[0] if found else ""


def query(settings: Settings, sql: str) -> list[str]:
    """Return the result lines of a MariaDB query, with tabs between columns.

    Raises:
        BackupError: MariaDB does not answer or reports an error.
    """
    return answer([*_client(settings), "--batch", "--skip-column-names"], f"{sql};\n").splitlines()


def table_names(settings: Settings) -> list[str]:
    """Return the tables of the accounting database; empty if the database does not exist.

    Raises:
        BackupError: MariaDB does not answer.
    """
    where = f"table_schema = '{_database(settings)}' AND table_type = 'BASE TABLE'"
    return query(settings, f"SELECT table_name FROM information_schema.tables WHERE {where}")  # noqa: S608 - a validated name


def database_bytes(settings: Settings) -> int:
    """Return the size of the tables of the accounting database in bytes.

    Raises:
        BackupError: MariaDB does not answer.
    """
    where = f"table_schema = '{_database(settings)}'"
    query_text = f"SELECT COALESCE(SUM(data_length), 0) FROM information_schema.tables WHERE {where}"  # noqa: S608 - a validated name
    return int(query(settings, query_text)[0])


def table_rows(settings: Settings) -> dict[str, int]:
    """Return the number of rows of each table of the accounting database.

    Raises:
        BackupError: MariaDB does not answer.
    """
    names = table_names(settings)
    if not names:
        return {}
    place = _database(settings)
    counts = (f"SELECT '{name}', COUNT(*) FROM `{place}`.`{name}`" for name in names)  # noqa: S608 - names from MariaDB
    answers = (line.split("\t") for line in query(settings, " UNION ALL ".join(counts)))
    return {name: int(rows) for name, rows in answers}


def dump_accounting(settings: Settings, target: Path) -> None:
    """Write a consistent dump of the accounting database to a new file with mode 0600.

    Raises:
        BackupError: mariadb-dump failed, or the file cannot be written.
    """
    command = [
        "mariadb-dump",
        f"--socket={settings.database_socket}",
        # A consistent snapshot of the InnoDB tables, without a lock that would block slurmdbd.
        "--single-transaction",
        "--quick",
        "--routines",
        "--triggers",
        "--hex-blob",
        # With one row per line, rows can be counted and unchanged data is deduplicated across snapshots.
        "--skip-extended-insert",
        "--no-autocommit",
        "--databases",
        _database(settings),
    ]
    _write_private(command, target)


def load_accounting(settings: Settings, dump: Path) -> None:
    """Restore a dump into MariaDB.

    Raises:
        BackupError: MariaDB reports an error.
    """
    command = _client(settings)
    with dump.open("rb") as file:
        _require_success(command, ended(command, read=file))


def dump_directory(settings: Settings, target: Path) -> None:
    """Dump the LDAP directory, including password hashes, to a new file with mode 0600; slapd may be running.

    Raises:
        BackupError: slapcat failed, or the file cannot be written.
    """
    _write_private(_slapd_command("slapcat", settings), target)


def directory_entries(settings: Settings) -> int:
    """Return the number of entries in the LDAP directory.

    Raises:
        BackupError: slapcat failed.
    """
    return count_entries(answer(_slapd_command("slapcat", settings)).encode().splitlines())


def count_entries(lines: Iterable[bytes]) -> int:
    """Return the number of entries in LDIF lines."""
    return sum(line.startswith(b"dn:") for line in lines)


def load_directory(settings: Settings, dump: Path) -> None:
    """Load a dump into the empty LDAP directory while slapd is stopped.

    Raises:
        BackupError: slapadd reports an error.
    """
    # Run as the directory user, because slapd could not open files that root writes.
    command = ["runuser", "-u", settings.directory_user, "--", *_slapd_command("slapadd", settings), "-q"]
    with dump.open("rb") as file:
        _require_success(command, ended(command, read=file))


def _write_private(command: Sequence[str], target: Path) -> None:
    """Write the output of a program to a new file with mode 0600.

    Raises:
        BackupError: the program failed, or the file cannot be written.
    """
    try:
        with target.open("xb") as file:
            target.chmod(0o600)
            _require_success(command, ended(command, write=file))
    except OSError as error:
        message = f"{target}: {error}"
        raise BackupError(message) from error


def _slapd_command(tool: str, settings: Settings) -> list[str]:
    return [f"/usr/sbin/{tool}", "-f", settings.directory]


def _client(settings: Settings) -> list[str]:
    return ["mariadb", f"--socket={settings.database_socket}"]


def _database(settings: Settings) -> str:
    if not _NAME.fullmatch(settings.database):
        message = f"{settings.database!r} is not a database name"
        raise BackupError(message)
    return settings.database


def _require_success(command: Sequence[str], outcome: Outcome) -> str:
    if outcome.status:
        answer = (outcome.errors or outcome.output)[-600:]
        message = f"{' '.join(command)} exited with status {outcome.status}: {answer}"
        raise BackupError(message)
    return outcome.output
