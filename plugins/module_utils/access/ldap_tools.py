"""Query and change an LDAP directory with ldap-utils, without passwords on command lines."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Entry = dict[str, list[str]]

__all__ = [
    "NO_SUCH_OBJECT",
    "SOCKET",
    "Connection",
    "LdapError",
    "add_ldif",
    "change_ldif",
    "delete_ldif",
    "escaped",
    "parse_ldif",
]

SOCKET = "ldapi:///"

NO_SUCH_OBJECT = 32
_TIMEOUT_S = 60


class LdapError(Exception):
    """A tool failed; `code` is the LDAP result code, or 255 if the server was not reached."""

    def __init__(self, code: int, message: str) -> None:
        """Store the code and the message."""
        super().__init__(message)
        self.code = code


class Connection:
    """Connection parameters and credentials of a directory."""

    def __init__(
        self, uri: str, *, ca_file: str = "", start_tls: bool = False, dn: str = "", password: str = ""
    ) -> None:
        """Store the parameters; without a DN, connect as root through an ldapi socket, otherwise anonymously."""
        self.uri, self.ca_file, self.start_tls, self.dn, self.password = uri, ca_file, start_tls, dn, password

    def run(self, tool: str, *arguments: str, text: str = "") -> str:
        """Run a tool of ldap-utils; return its output.

        Raises:
            LdapError: the tool failed or timed out.
        """
        login = ["-Q", "-Y", "EXTERNAL"] if self.uri.startswith("ldapi:") and not self.dn else ["-x"]
        pipe: tuple[int, int] | None = None
        if self.dn:
            # The tools read the whole password file, so pass a pipe that no other user can read.
            pipe = os.pipe()
            os.write(pipe[1], self.password.encode())
            os.close(pipe[1])
            login += ["-D", self.dn, "-y", f"/dev/fd/{pipe[0]}"]
        command = [tool, *login, *(["-ZZ"] if self.start_tls else []), "-H", self.uri, *arguments]
        environment = os.environ | {"LDAPTLS_REQCERT": "demand", "LC_ALL": "C", "LDAPNETWORK_TIMEOUT": "10"}
        if self.ca_file:
            environment["LDAPTLS_CACERT"] = self.ca_file
        try:
            done = subprocess.run(  # noqa: S603 - the tools of ldap-utils, without a shell
                command,
                check=False,
                capture_output=True,
                text=True,
                input=text,
                env=environment,
                timeout=_TIMEOUT_S,
                pass_fds=pipe[:1] if pipe else (),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LdapError(255, f"{tool}: {error}") from error
        finally:
            if pipe:
                os.close(pipe[0])
        if done.returncode:
            errors = " ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
            raise LdapError(done.returncode, f"{self.uri}: {errors or f'{tool} exited with status {done.returncode}'}")
        return done.stdout

    def search(self, base: str, scope: str, condition: str, *attributes: str) -> list[Entry]:
        """Return matching entries; empty if `base` does not exist.

        Raises:
            LdapError: the directory does not answer, or rejects the search.
        """
        options = ["-LLL", "-o", "ldif-wrap=no", "-b", base, "-s", scope, condition, *attributes]
        try:
            return parse_ldif(self.run("ldapsearch", *options))
        except LdapError as error:
            if error.code == NO_SUCH_OBJECT:
                return []
            raise


def escaped(text: str) -> str:
    """Return a string escaped as a filter value (RFC 4515)."""
    return "".join(f"\\{ord(sign):02x}" if sign in "*()\\\0" else sign for sign in text)


def parse_ldif(text: str) -> list[Entry]:
    """Return the entries in LDIF with unwrapped lines; attribute names are in lower case and include `dn`."""
    entries: list[Entry] = []
    entry: Entry = {}
    for line in [*text.splitlines(), ""]:
        if not line:
            if "dn" in entry:
                entries.append(entry)
            entry = {}
            continue
        name, found, value = line.partition(":")
        if not found or line.startswith("#"):
            continue
        if value.startswith(":"):
            value = base64.b64decode(value[1:]).decode("utf-8", "replace")
        entry.setdefault(name.lower(), []).append(value.strip())
    return entries


def _line(name: str, value: str) -> str:
    return f"{name}:: {base64.b64encode(value.encode()).decode()}"


def add_ldif(dn: str, attributes: Mapping[str, Sequence[str]]) -> str:
    """Return the LDIF that adds an entry; the first RDN is added to its attributes."""
    name, _, value = dn.partition(",")[0].partition("=")
    attributes = {name: [value], **attributes}
    lines = [_line(name, value) for name, values in attributes.items() for value in values]
    return "\n".join([_line("dn", dn), "changetype: add", *lines, "", ""])


def change_ldif(dn: str, parts: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Return the LDIF that adds and deletes single values; each part is a tuple of operation, attribute and values."""
    lines = []
    for how, name, values in parts:
        lines += [f"{how}: {name}", *(_line(name, value) for value in values), "-"]
    return "\n".join([_line("dn", dn), "changetype: modify", *lines, "", ""])


def delete_ldif(dn: str) -> str:
    """Return the LDIF that deletes an entry."""
    return "\n".join([_line("dn", dn), "changetype: delete", "", ""])
