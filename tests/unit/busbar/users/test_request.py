"""Tests of the requests of `busbar user`, and of all their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.users.request import new_user, read_keys, read_table

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk frank@laptop"


def test_user_has_only_the_given_fields() -> None:
    assert new_user({"name": "erin", "number": None, "keys": []}) == {"do": "add", "name": "erin"}
    given = {"name": "erin", "number": "2101", "full_name": "Erin Ä", "group": "a", "groups": ["a", "b", "b"]}
    assert new_user(given | {"accounts": ["x", "x"], "keys": [KEY, KEY]}) == {
        "do": "add",
        "name": "erin",
        "number": 2101,
        "full_name": "Erin Ä",
        "group": "a",
        "groups": ["b"],
        "accounts": ["x"],
        "keys": [KEY],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "root"}, "'root' is not a valid user name"),
        ({"name": "Erin Smith"}, "is not a valid user name"),
        ({"name": "-rf"}, "is not a valid user name"),
        ({"number": "0"}, "use a number from 1000 to 59999"),
        ({"number": "65534"}, "use a number from"),
        ({"number": "²"}, "use a number from"),
        ({"number": "1e4"}, "use a number from"),
        ({"full_name": "a:b"}, "without ':'"),
        ({"full_name": "a\nb"}, "one line"),
        ({"groups": ["a b"]}, "is not a valid group"),
        ({"accounts": ["a,b"]}, "is not a valid group or account"),
        ({"keys": ["ssh-ed25519 AAAA x"]}, "not an SSH public key"),
        ({"keys": [KEY.replace("ssh-ed25519", "ssh-rsa")]}, "not an SSH public key"),
        ({"keys": [f'command="x" {KEY}']}, "not an SSH public key"),
        ({"keys": [f"{KEY}\x07"]}, "non-printable"),
    ],
)
def test_invalid_values_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        new_user({"name": "erin"} | given)


def test_keys_are_given_as_text_or_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# mine\n{KEY}\n\n")
    assert read_keys(KEY) == read_keys(str(file)) == [KEY]
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n")
    with pytest.raises(UsageError, match="private key") as caught:
        read_keys(str(file))
    assert "secret" not in str(caught.value)
    for text in ("", "# nothing\n", "hello\n"):
        file.write_text(text)
        with pytest.raises(UsageError, match="keys: "):
            read_keys(str(file))
    with pytest.raises(UsageError, match="is neither a public key nor a readable file"):
        read_keys(str(tmp_path / "missing"))


def test_a_table_of_users(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text(
        f'name,number,full_name,accounts,keys\nerin,2101,"Example, Erin",a b,"{KEY}\n{KEY}x"\n\nfrank,,,a;c,\n',
        encoding="utf-8-sig",
    )
    erin, frank = read_table(file)
    assert (erin["full_name"], erin["accounts"], erin["keys"]) == ("Example, Erin", ["a", "b"], [KEY, f"{KEY}x"])
    assert frank == {"do": "add", "name": "frank", "accounts": ["a", "c"]}


def test_all_errors_of_a_table_are_reported_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text(
        f'name,number,keys\nerin,2101,"{KEY}\n{KEY}"\nErin,2102,\nfrank,12,\ngrace,2101,\nerin,,\nheidi,2105\n,,\n'
    )
    with pytest.raises(UsageError) as caught:
        read_table(file)
    assert str(caught.value).splitlines()[1:] == [
        "  line 4: 'Erin' is not a valid user name: use lower-case letters, digits, '_' and '-'; root is not allowed",
        "  line 5: UID '12': use a number from 1000 to 59999",
        "  line 8: 2 fields (expected 3)",
        "  line 7: user erin is also in line 2",
        "  line 6: UID 2101 is also in line 2",
    ]


def test_large_table_has_no_false_duplicates(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text("name,number\nfirst,1500\n" + "".join(f"user{number},\n" for number in range(1600)))
    assert len(read_table(file)) == 1601


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "use name,number"),
        ("number\n2000\n", "or name is missing"),
        ("name,name\na,b\n", "a column is repeated, or name is missing"),
        ("name,password\na,b\n", "unknown columns 'password'"),
        ("name\n", "line 2: no user"),
        ('name\n"a"b\n', "line 2: "),
        ("name\na\0b\n", "binary"),
    ],
)
def test_invalid_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "users.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_table(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "missing.csv")
