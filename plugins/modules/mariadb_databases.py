"""Module that creates databases and users on a MariaDB server."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mariadb_databases
author: busbar contributors (!UNKNOWN)
short_description: Create databases and users of the MariaDB server on this host
description:
  - Connects through the server's socket as root, with PyMySQL. Passwords appear on no command line and in no log.
  - Removes anonymous users and the database C(test). Users that are not listed stay unchanged.
extends_documentation_fragment: busbar.cluster.attributes
options:
  databases: {description: Names of the databases to create., type: list, elements: str, default: []}
  users:
    description: The users; each gets exactly this password and these privileges.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      host: {description: Host from which the user may connect., type: str, default: localhost}
      password: {description: Password., type: str, required: true}
      privileges: {description: "C(DATABASE.TABLE:PRIVILEGE,PRIVILEGE), joined by C(/).", type: str, required: true}
  socket: {description: Path of the server's socket., type: path, required: true}
"""

EXAMPLES = r"""
- busbar.cluster.mariadb_databases: {databases: [slurm_acct_db], socket: /run/mysqld/mysqld.sock}
"""

RETURN = r"""
changes: {description: Changes that were or would be made., returned: always, type: list, elements: str}
"""

import contextlib
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ..module_utils.common.problems import REFUSED

try:
    import pymysql
except ImportError:
    pymysql = None

_PRIVILEGES = re.compile(r"(?P<scope>[^\s:`]+\.[^\s:`]+):(?P<privileges>[A-Za-z_ ]+(,[A-Za-z_ ]+)*)")
_GRANT = re.compile(r"GRANT (?P<privileges>.+) ON (?P<scope>\S+\.\S+) TO .*?(?P<option> WITH GRANT OPTION)?")
_ALL = "ALL"
_OPTION = "GRANT OPTION"


class Server:
    """A MariaDB server and the changes made to it."""

    def __init__(self, connection: Any, *, check: bool) -> None:  # noqa: ANN401 - PyMySQL has no types
        """Store the connection; with `check`, changes are only listed."""
        self._connection = connection
        self._check = check
        self.changes: list[str] = []

    def rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def change(self, shown: str, *statements: tuple[str, ...]) -> None:
        """Execute statements, each with its values, unless in check mode."""
        self.changes.append(shown)
        for statement, *values in [] if self._check else statements:
            self.rows(statement, *values)


def parse_privileges(text: str) -> dict[str, set[str]]:
    """Return the declared privileges of a user by scope, in the server's notation.

    Raises:
        ValueError: the text is not valid.
    """
    found: dict[str, set[str]] = {}
    for part in text.split("/"):
        match = _PRIVILEGES.fullmatch(part)
        if match is None:
            message = (
                f"privileges: {part!r} is not valid: write DATABASE.TABLE:PRIVILEGE,PRIVILEGE (slurm_acct_db.*:ALL)"
            )
            raise ValueError(message)
        words = {" ".join(word.upper().split()) for word in match["privileges"].split(",")}
        renamed = {{"ALL PRIVILEGES": _ALL, "GRANT": _OPTION}.get(word, word) for word in words}
        found.setdefault(".".join(map(quoted, match["scope"].split(".", 1))), set()).update(renamed)
    return found


def granted(lines: list[str]) -> dict[str, set[str]]:
    """Return the privileges that a user has, by scope, from the output of SHOW GRANTS."""
    found: dict[str, set[str]] = {}
    for match in filter(None, map(_GRANT.fullmatch, lines)):
        words = {_ALL if word == "ALL PRIVILEGES" else word for word in re.split(r", (?![^(]*\))", match["privileges"])}
        found[match["scope"]] = words - {"USAGE"} | ({_OPTION} if match["option"] else set())
    return {scope: words for scope, words in found.items() if words}


def quoted(name: str) -> str:
    """Return a name as an SQL identifier; * is returned unchanged."""
    return name if name == "*" else f"`{name.replace('`', '``')}`"


def clean(server: Server) -> None:
    """Remove the test database and anonymous users of a new server."""
    for (host,) in server.rows("SELECT Host FROM mysql.user WHERE User = ''"):
        server.change(f"remove the anonymous user of {host}", ("DROP USER ''@%s", str(host)))
    if server.rows("SHOW DATABASES LIKE 'test'"):
        server.change("remove the database test", ("DROP DATABASE test",))


def create_databases(server: Server, names: list[str]) -> None:
    """Create missing databases."""
    present = {name for (name,) in server.rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")}
    for name in names:
        if name not in present:
            statement = f"CREATE DATABASE {quoted(name).replace('%', '%%')} CHARACTER SET utf8mb4"
            server.change(f"create the database {name}", (statement,))


def set_user(server: Server, name: str, host: str, password: str, privileges: dict[str, set[str]]) -> None:
    """Set a user's password and privileges."""
    account, shown = "%s@%s", f"{name}@{host}"
    way = f"{account} IDENTIFIED VIA mysql_native_password USING PASSWORD(%s)"
    found = server.rows(
        "SELECT plugin = 'mysql_native_password' AND authentication_string = PASSWORD(%s) FROM mysql.user"
        " WHERE User = %s AND Host = %s",
        *(password, name, host),
    )
    if not found:
        server.change(f"create the user {shown}", (f"CREATE USER {way}", name, host, password))
    elif not found[0][0]:
        server.change(f"set the password of {shown}", (f"ALTER USER {way}", name, host, password))
    lines = server.rows(f"SHOW GRANTS FOR {account}", name, host) if found else []
    present = granted([line for (line,) in lines])
    for scope in sorted(present.keys() | privileges.keys()):
        has, shall = present.get(scope, set()), privileges.get(scope, set())
        # ALL PRIVILEGES includes every other privilege.
        extra = has - shall - ({*has} - {_OPTION} if _ALL in shall else set())
        missing = shall if _ALL in extra else shall - has
        where = f"ON {scope.replace('%', '%%')}"
        statements = [(f"REVOKE {word} {where} FROM {account}", name, host) for word in sorted(extra)]
        if missing:
            words = ", ".join(sorted(shall - {_OPTION})) or "USAGE"
            option = " WITH GRANT OPTION" if _OPTION in shall else ""
            statements.append((f"GRANT {words} {where} TO {account}{option}", name, host))
        if statements:
            server.change(f"set the privileges of {shown} on {scope}", *statements)


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    user = {"name": word, "host": {"type": "str", "default": "localhost"}, "privileges": word}
    module = AnsibleModule(
        argument_spec={
            "databases": {"type": "list", "elements": "str", "default": []},
            "users": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": user | {"password": {**word, "no_log": True}},
            },
            "socket": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if pymysql is None:
        module.fail_json(msg=missing_required_lib("PyMySQL"))
    problems, privileges = [], []
    for each in given["users"]:
        try:
            privileges.append(parse_privileges(each["privileges"]))
        except ValueError as error:
            problems.append(f"mariadb_users: {each['name']}@{each['host']}: {error}")
    if problems:
        module.fail_json(msg="\n".join(problems), **{REFUSED: True})
    try:
        with contextlib.closing(pymysql.connect(unix_socket=given["socket"], user="root", charset="utf8mb4")) as opened:
            server = Server(opened, check=module.check_mode)
            clean(server)
            create_databases(server, given["databases"])
            for each, wanted in zip(given["users"], privileges):
                set_user(server, each["name"], each["host"], each["password"], wanted)
    except pymysql.Error as error:
        module.fail_json(msg=f"MariaDB at {given['socket']}: {error}; see `journalctl -u mariadb`")
    module.exit_json(changed=bool(server.changes), changes=server.changes)


if __name__ == "__main__":
    main()
