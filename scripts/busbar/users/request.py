"""Validates the requests of `busbar user`: a single user, or a CSV file of users."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from ansible_collections.busbar.cluster.plugins.module_utils.access.account_problems import KEY_TYPES, checked_key

from busbar.errors import UsageError
from busbar.text_file import read_text

COLUMNS = ("name", "number", "full_name", "group", "groups", "accounts", "keys")
"""Columns of the CSV file of `import`; only the first is required."""

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# Group names follow POSIX, and account names follow sacctmgr.
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
FIRST, LAST = 1000, 59999
MOST_BYTES = 1 << 24


def checked_name(name: str) -> str:
    """Return a valid user name.

    Raises:
        UsageError: the name is invalid.
    """
    if not NAME.fullmatch(name) or name == "root":
        message = f"{name!r} is not a valid user name: use lower-case letters, digits, '_' and '-'; root is not allowed"
        raise UsageError(message)
    return name


def new_user(given: dict[str, Any]) -> dict[str, Any]:
    """Return the change that adds a user with the given fields.

    Args:
        given: fields by COLUMNS; `groups` and `accounts` as words, `keys` as lines.

    Raises:
        UsageError: a field is invalid.
    """
    change: dict[str, Any] = {"do": "add", "name": checked_name(str(given["name"]))}
    number = str(given.get("number") or "").strip()
    if number:
        if not number.isascii() or not number.isdecimal() or not FIRST <= int(number) <= LAST:
            message = f"UID {number!r}: use a number from {FIRST} to {LAST}"
            raise UsageError(message)
        change["number"] = int(number)
    full_name = str(given.get("full_name") or "").strip()
    if full_name:
        # These characters separate fields and lines of /etc/passwd.
        if not full_name.isprintable() or ":" in full_name:
            message = f"full name {full_name!r}: use one line without ':'"
            raise UsageError(message)
        change["full_name"] = full_name
    groups = [str(given.get("group") or "").strip(), *(given.get("groups") or [])]
    for word in filter(None, [*groups, *(given.get("accounts") or [])]):
        if not WORD.fullmatch(word):
            message = f"{word!r} is not a valid group or account: use letters, digits, '_', '.' and '-'"
            raise UsageError(message)
    if groups[0]:
        change["group"] = groups[0]
    more = list(dict.fromkeys(word for word in groups[1:] if word != groups[0]))
    keys = list(dict.fromkeys(_checked_key(line) for line in given.get("keys") or []))
    accounts = list(dict.fromkeys(given.get("accounts") or []))
    return change | {key: value for key, value in (("groups", more), ("accounts", accounts), ("keys", keys)) if value}


def read_keys(word: str) -> list[str]:
    """Return the public keys in a text, or in the file with this name.

    Raises:
        UsageError: no key is found, or one is not a public key.
    """
    if word.startswith(KEY_TYPES):
        return [_checked_key(word)]
    try:
        text = Path(word).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{word}: is neither a public key nor a readable file: {getattr(exc, 'strerror', None) or exc}"
        raise UsageError(message) from exc
    lines = [line.strip() for line in text.splitlines()]
    try:
        keys = [_checked_key(line) for line in lines if line and not line.startswith("#")]
    except UsageError as exc:
        message = f"{word}: {exc}"
        raise UsageError(message) from exc
    if not keys:
        message = f"{word}: contains no key"
        raise UsageError(message)
    return keys


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the changes in a CSV file.

    Raises:
        UsageError: names all errors with their lines.
    """
    rows = csv.reader(read_text(path, MOST_BYTES).splitlines(keepends=True), strict=True)
    wrong: list[str] = []
    changes: list[dict[str, Any]] = []
    try:
        header = [word.strip().lower() for word in next(rows, [])]
        _check_header(header)
        # Quoted fields may contain line breaks, so a row starts after the last line of the previous row.
        line = rows.line_num + 1
        for row in rows:
            changes += _row(header, row, line, wrong)
            line = rows.line_num + 1
        wrong += _duplicates(changes)
        if not changes and not wrong:
            wrong.append("line 2: no user found")
    except csv.Error as exc:
        wrong.append(f"line {rows.line_num}: {exc}")
    except UsageError as exc:
        wrong.append(f"line 1: {exc}")
    if wrong:
        message = "\n".join([f"{path} was not imported; nothing was changed:", *(f"  {each}" for each in wrong)])
        raise UsageError(message)
    return [{key: value for key, value in change.items() if key != "line"} for change in changes]


def _check_header(header: list[str]) -> None:
    unknown = [word for word in header if word not in COLUMNS]
    if "name" not in header or unknown or len(set(header)) < len(header):
        problem = (
            f"unknown columns {', '.join(map(repr, unknown))}"
            if unknown
            else "a column is repeated, or name is missing"
        )
        message = f"{problem}: use {','.join(COLUMNS)}"
        raise UsageError(message)


def _row(header: list[str], row: list[str], line: int, wrong: list[str]) -> list[dict[str, Any]]:
    """Return the change in a row, empty for an empty row; append its errors to `wrong`."""
    if not any(field.strip() for field in row):
        return []
    if len(row) != len(header):
        wrong.append(f"line {line}: {len(row)} fields (expected {len(header)})")
        return []
    fields: dict[str, Any] = {key: text.strip() for key, text in zip(header, row)}
    for key in ("groups", "accounts"):
        fields[key] = fields.get(key, "").replace(";", " ").split()
    fields["keys"] = [text.strip() for text in fields.get("keys", "").splitlines() if text.strip()]
    try:
        return [new_user(fields) | {"line": line}]
    except UsageError as exc:
        wrong.append(f"line {line}: {exc}")
        return []


def _duplicates(changes: list[dict[str, Any]]) -> list[str]:
    """Return an error for each duplicate user or UID."""
    wrong = []
    for key, word in (("name", "user"), ("number", "UID")):
        first: dict[Any, int] = {}
        for change in changes:
            line = first.setdefault(change.get(key, ("", change["line"])), change["line"])
            if line != change["line"]:
                wrong.append(f"line {change['line']}: {word} {change[key]} is also in line {line}")
    return wrong


def _checked_key(line: str) -> str:
    """Return a public key on one line.

    Raises:
        UsageError: the text is not a public key; the message does not repeat it.
    """
    try:
        return checked_key(line)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
