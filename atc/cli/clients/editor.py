"""Edits of one configuration, each checked by reading what it makes and remembered for its undoing; and their diff."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from atc.cli.clients.clients import Client, Form
from atc.cli.clients.document import (
    ConfigProblem,
    Document,
    Edit,
    Path,
    Scalar,
    same,
    settled,
    with_entry,
    without_entry,
)
from atc.cli.clients.json_text import JsoncDocument, JsonDocument
from atc.cli.clients.toml_text import TomlDocument
from atc.cli.clients.yaml_text import YamlDocument
from atc.tools.mcp.spec import in_arguments, in_url, sort_values

KINDS: Mapping[Form, type[Document]] = {
    "json": JsonDocument,
    "jsonc": JsoncDocument,
    "toml": TomlDocument,
    "yaml": YamlDocument,
}


def parsed(form: Form, text: str) -> Document:
    """A text, parsed.

    Raises:
        ConfigProblem: it is not of this form, too long, or nested too deeply.
    """
    kind = KINDS[form]
    if len(text) > kind.limit:
        raise ConfigProblem(f"it has more than {kind.limit:,} characters, and ATC edits none so long")
    return kind(text)


def edited(form: Form, text: str, edit: Edit, expected: Any, path: Path) -> Document | None:
    """The document that an edit makes; ``None`` if that is not one that says what was expected, and nothing else."""
    return checked(form, edit.apply(text), expected, path)


def checked(form: Form, text: str, expected: Any, path: Path) -> Document | None:
    """The document of a text, if it says what was expected, and nothing else."""
    try:
        made = parsed(form, text)
    except ConfigProblem:
        return None
    return made if same(settled(made.data, path), settled(expected, path)) else None


class Step(BaseModel):
    """One edit that was made.

    Attributes:
        action: ``put`` an entry, or ``take`` one out.
        name: of the entry. ``value``: what it said. ``raw``: its text, where it stood in one piece.
        moved: the entry as ATC runs it; ``None`` if it did not move behind ATC.
        edit: the edit of the text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["put", "take"]
    name: str
    value: Any = None
    raw: str = ""
    moved: dict[str, Any] | None = None
    edit: Edit


class Editor:
    """The text of a configuration, and what was done to it.

    Attributes:
        document: as it is now.
        steps: what was done, the first first.
    """

    def __init__(self, client: Client, text: str) -> None:
        self._client = client
        self.document = parsed(client.form, text)
        self.steps: list[Step] = []
        self.servers()  # something else in their place is said before anything is planned

    def servers(self) -> dict[str, Any]:
        """The servers by name, as they are now."""
        return self.document.servers(self._client.key)

    def put(self, name: str, value: Mapping[str, Any], raw: str = "") -> None:
        """Add an entry.

        Args:
            raw: its text, tried first.

        Raises:
            ConfigProblem: the file is written in a way that cannot be edited for certain.
        """
        key, text = self._client.key, self.document.text
        expected = with_entry(self.document.data, key, name, value)
        for attempt in (raw, "") if raw else ("",):
            edit = self.document.put(key, name, value, attempt)
            made = edited(self._client.form, text, edit, expected, key)
            if made is not None:
                self.document = made
                self.steps.append(Step(action="put", name=name, value=dict(value), edit=edit))
                return
        raise self._unsure()

    def take(self, name: str, moved: dict[str, Any] | None = None) -> None:
        """Remove an entry.

        Args:
            moved: as ATC runs it from now on.

        Raises:
            ConfigProblem: as :meth:`put`.
        """
        key, value = self._client.key, self.servers()[name]
        if not _kept_by_json(value):
            raise ConfigProblem(f"{name!r} holds a value that JSON does not have")
        raw, edit = self.document.raw(key, name), self.document.take(key, name)
        expected = without_entry(self.document.data, key, name)
        made = edited(self._client.form, self.document.text, edit, expected, key)
        if made is None:
            raise self._unsure()
        self.document = made
        self.steps.append(Step(action="take", name=name, value=value, raw=raw, moved=moved, edit=edit))

    def undo(self, step: Step) -> None:
        """Do the opposite of a step: by its text where that stands as it was left, else by what it means.

        Raises:
            ConfigProblem: as :meth:`put`.
        """
        key, data = self._client.key, self.document.data
        put = step.action == "put"
        expected = without_entry(data, key, step.name) if put else with_entry(data, key, step.name, step.value)
        text = step.edit.undone(self.document.text)
        made = None if text is None else checked(self._client.form, text, expected, key)
        if made is not None:
            self.document = made
        elif put:
            self.take(step.name)
        else:
            self.put(step.name, step.value, step.raw)

    def missing_keys(self) -> tuple[str, ...]:
        """The keys on the way to the servers that are not there, from the first of them on."""
        found = self.document.data
        for depth, key in enumerate(self._client.key):
            if not isinstance(found, dict) or key not in found:
                return self._client.key[depth:]
            found = found[key]
        return ()

    def prune(self, keys: tuple[str, ...]) -> None:
        """Remove the last keys on the way to the servers, if nothing is left behind them."""
        path = self._client.key
        above = path[: len(path) - len(keys)]
        if not keys or self.servers() or not isinstance(self.document.data, dict) or self.missing_keys():
            return
        if not same(self.document.servers(path[: len(above) + 1]), _nested(path[len(above) + 1 :])):
            return
        try:
            edit = self.document.take(above, keys[0])
        except ConfigProblem:
            return  # an empty mapping harms nobody
        expected = without_entry(self.document.data, above, keys[0])
        self.document = edited(self._client.form, self.document.text, edit, expected, above) or self.document

    def _unsure(self) -> ConfigProblem:
        return ConfigProblem("the file is written in a way that ATC cannot edit with certainty")


def _kept_by_json(value: Any) -> bool:
    """Whether a record can hold a value: no dates, bytes, keys that are no text, halves of characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return same(json.loads(text), value) and bool(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError):
        return False


def _nested(keys: tuple[str, ...]) -> dict[str, Any]:
    return {keys[0]: _nested(keys[1:])} if keys else {}


# -- the change of a file as a user sees it: unified, bounded, and without what may be a credential --------------------

MASK = "***"
_AROUND = 3
_MOST_LINES = 2_000
"""Lines that are compared; longer stretches are shown as one."""
_HIDDEN = frozenset({"env", "envs", "environment", "headers", "http_headers", "env_http_headers", "requestinit"})
_RANDOM = re.compile(r"(?<![\w.~%+=-])(?=[\w.~%+=-]*[0-9])(?=[\w.~%+=-]*[A-Za-z])[\w.~%+=-]{24,}+")


def shown_diff(before: Document, after: Document, name: str) -> str:
    """The lines that differ, with three around them."""
    old, new = (each.text.removesuffix("\n").split("\n") for each in (before, after))
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    head, tail = max(0, head - _AROUND), max(0, tail - _AROUND)
    old, new = _shown(before, old, head, tail), _shown(after, new, head, tail)
    lines = [f"--- {name}", f"+++ {name}"]
    if max(len(old), len(new)) > _MOST_LINES:
        groups = [[("replace", 0, len(old), 0, len(new))]]
    else:
        groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND))
    for group in groups:
        lines.append(_hunk(head, group))
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[a:b]]
            else:
                lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
    return "\n".join(lines) + "\n"


def _hunk(head: int, group: Sequence[tuple[str, int, int, int, int]]) -> str:
    (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
    return f"@@ -{head + a + 1},{b - a} +{head + c + 1},{d - c} @@"


def _shown(document: Document, lines: Sequence[str], head: int, tail: int) -> list[str]:
    """The lines but for some at both ends, without credentials."""
    start = sum(len(line) + 1 for line in lines[:head])
    end = start + sum(len(line) + 1 for line in lines[head : len(lines) - tail]) - 1
    return [line.rstrip("\r") for line in masked(document, start, max(start, end)).split("\n")] if end >= start else []


def masked(document: Document, start: int, end: int) -> str:
    """A stretch of a text with stars in the place of what may be a credential."""
    text, made, at = document.text, [], start
    for first, last in _secrets(list(document.scalars(start, end))):
        if last > at and first < end:
            quote = text[first] if text[first] in "\"'" and first >= at else ""
            made += [_RANDOM.sub(MASK, text[at : max(at, first)]), f"{quote}{MASK}{quote}"]
            at = last
    return "".join([*made, _RANDOM.sub(MASK, text[at:end])])


def _secrets(scalars: Sequence[Scalar]) -> list[tuple[int, int]]:
    by_path: dict[tuple[str, ...], list[Scalar]] = defaultdict(list)
    for scalar in sorted(scalars, key=lambda each: each.start):
        by_path[scalar.path].append(scalar)
    found = set()
    for path, group in by_path.items():
        words = [scalar.text for scalar in group]
        named = any(key.lower() in _HIDDEN for key in path) or bool(path and sort_values({path[-1]: "x"})[0])
        told = [secret for secret in in_arguments(words) if len(secret) > 3] if len(words) < 1_000 else []
        for scalar in group:
            secret = named or any(each in scalar.text for each in told)
            secret = secret or ("://" in scalar.text and any(len(each) > 3 for each in in_url(scalar.text)))
            if secret:
                found.add((scalar.start, scalar.end))
    return sorted(found)
