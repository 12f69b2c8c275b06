"""Edits a list in a YAML file and leaves every other character of the file unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


class CannotEditError(ValueError):
    """The text cannot be edited safely; the message is the reason."""


class _Loader(yaml.SafeLoader):
    """Loads tagged values, such as vault values, as unparsed text."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> tuple[str, str]:
    del loader
    return (f"!{suffix}", str(node.value))


_Loader.add_multi_constructor("!", _tagged)


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class YamlFile:
    """A variables file that contains a list of named entries.

    Attributes:
        text: text of the file.
        data: parsed content.
    """

    def __init__(self, text: str, key: str) -> None:
        """Parse the text.

        Args:
            text: text of the file.
            key: name of the list variable.

        Raises:
            CannotEditError: the text is not a YAML mapping.
        """
        self.text = text
        self._key = key
        try:
            root = yaml.compose(text, Loader=_Loader)
            # An empty document has no node to which a list could be added.
            self._root = None if _is_nothing(root) else root
            if self._root is not None and not isinstance(self._root, yaml.MappingNode):
                message = "the file is not a YAML mapping"
                raise CannotEditError(message)
            self.data: dict[str, Any] = _load(text)
        except yaml.YAMLError as exc:
            message = "the file is not valid YAML"
            raise CannotEditError(message) from exc

    def items(self) -> list[dict[str, Any]]:
        """Return the items of the list; empty if the file does not define it.

        Raises:
            CannotEditError: the variable is not a list of dictionaries with names.
        """
        found = self.data.get(self._key)
        if not isinstance(found or [], list) or any(
            not isinstance(item, dict) or "name" not in item for item in found or []
        ):
            message = f"{self._key} is not a plain list of entries with names"
            raise CannotEditError(message)
        return list(found or [])

    def line(self, name: str) -> int:
        """Return the first line of an entry, or 0 if the file does not contain it."""
        names = [str(item["name"]) for item in self.items()]
        return int(self._nodes()[names.index(name)].start_mark.line) + 1 if name in names else 0

    def result(self, expected: list[dict[str, Any]]) -> str:
        """Return the text with changed entries; unchanged entries keep their lines and comments.

        Args:
            expected: the existing entries with changed fields, then new ones.

        Raises:
            CannotEditError: the edited text would not have this content.
        """
        present = self.items()
        together = zip(self._nodes(), present, expected)
        edits = [edit for node, old, new in together for edit in self._changed(node, old, new)]
        if added := expected[len(present) :]:
            edits.append(self._appended(added))
        text, place = "", 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            text += self.text[place : edit.start] + edit.text
            place = max(place, edit.end)
        text += self.text[place:]
        try:
            same = _load(text) == self.data | ({self._key: expected} if expected else {})
        except yaml.YAMLError:
            same = False
        if not same:
            message = "the file uses YAML that cannot be edited safely, such as anchors"
            raise CannotEditError(message)
        return text

    def section(self) -> str:
        """Return the YAML text of the list."""
        if (held := self._list()) is None:
            return ""
        key, value = held
        return self.text[key.start_mark.index : max(_end(value), key.end_mark.index + 1)] + "\n"

    def _list(self) -> tuple[yaml.Node, yaml.Node] | None:
        return _field(self._root, self._key) if self._root is not None else None

    def _nodes(self) -> list[yaml.MappingNode]:
        held = self._list()
        return list(held[1].value) if held is not None else []

    def _changed(self, node: yaml.MappingNode, old: dict[str, Any], new: dict[str, Any]) -> Iterator[_Edit]:
        """Yield the edits that change an entry."""
        for field in old | new:
            held = _field(node, field)
            if field in old and field in new and old[field] == new[field]:
                continue
            if held is None:
                # Fields from an anchor cannot be removed here; `result` detects this.
                yield from [self._addition(node, f"{field}: {_flow(new[field])}")] if field in new else []
            elif field not in new:
                yield self._removal(node, field)
            elif isinstance(held[1], yaml.SequenceNode) and isinstance(new[field], list) and not held[1].flow_style:
                yield from self._change_block(held[1], new[field])
            else:
                yield _Edit(held[1].start_mark.index, _end(held[1]), _flow(new[field]))

    def _addition(self, node: yaml.MappingNode, text: str) -> _Edit:
        last = _end(node.value[-1][1])
        if node.flow_style:
            return _Edit(last, last, f", {text}")
        place = self._end_of_line(last)
        return _Edit(place, place, f"\n{' ' * node.value[0][0].start_mark.column}{text}")

    def _removal(self, node: yaml.MappingNode, field: str) -> _Edit:
        number = [each[0].value for each in node.value].index(field)
        start, end = node.value[number][0].start_mark.index, _end(node.value[number][1])
        if number == 0:
            end = node.value[1][0].start_mark.index
        elif node.flow_style:
            start = _end(node.value[number - 1][1])
        else:
            start, end = self._end_of_line(_end(node.value[number - 1][1])), self._end_of_line(end)
        return _Edit(start, end, "")

    def _appended(self, items: list[dict[str, Any]]) -> _Edit:
        """Return the edit that adds entries in the style of the existing ones."""
        held = self._list()
        if held is None:
            lead = "" if not self.text or self.text.endswith("\n") else "\n"
            body = "".join(f"  - {_flow(item)}\n" for item in items)
            return _Edit(len(self.text), len(self.text), f"{lead}{self._key}:\n{body}")
        name, node = held
        if not node.value:
            body = "".join(f"\n  - {_flow(item)}" for item in items)
            return _Edit(name.end_mark.index, max(node.end_mark.index, name.end_mark.index + 1), f":{body}")
        last = _end(node)
        if isinstance(node, yaml.SequenceNode) and node.flow_style:
            return _Edit(last - 1, last - 1, "".join(f", {_flow(item)}" for item in items))
        column = node.start_mark.column
        place = self._end_of_line(last)
        style = _flow if node.value[-1].flow_style else lambda item: _block(item, column + 2)
        return _Edit(place, place, "".join(f"\n{' ' * column}- {style(item)}" for item in items))

    def _change_block(self, node: yaml.SequenceNode, wanted: list[str]) -> Iterator[_Edit]:
        left = list(wanted)
        for item in node.value:
            if item.value in left:
                left.remove(item.value)
                continue
            start = self.text.rfind("\n", 0, item.start_mark.index)
            yield _Edit(start, self._end_of_line(_end(item)), "")
        place = self._end_of_line(_end(node))
        lines = "".join(f"\n{' ' * node.start_mark.column}- {_flow(value)}" for value in left)
        yield _Edit(place, place, lines)

    def _end_of_line(self, place: int) -> int:
        found = self.text.find("\n", place)
        return len(self.text) if found < 0 else found


def _load(text: str) -> dict[str, Any]:
    return dict(yaml.load(text, Loader=_Loader) or {})  # noqa: S506 - a subclass of SafeLoader


def _is_nothing(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in {"", "~", "null"}


def _field(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _end(node: yaml.Node) -> int:
    """Return the end of the text of a node; in block style this is before the following comments."""
    if isinstance(node, yaml.ScalarNode):
        # The end mark of a block scalar is the start of the line after it.
        return int(node.end_mark.index) - (1 if node.style in {"|", ">"} else 0)
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _flow(value: object) -> str:
    """Return a value in flow style on one line."""
    text = yaml.safe_dump([value], default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.strip()[1:-1]


def _block(item: dict[str, Any], indent: int) -> str:
    text = yaml.safe_dump(item, default_flow_style=False, sort_keys=False, width=10**6, allow_unicode=True)
    return text.strip().replace("\n", "\n" + " " * indent)
