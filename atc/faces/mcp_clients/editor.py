"""Edits of one configuration, each checked by reading what it makes, and remembered so that it can be undone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from atc.faces.mcp_clients.document import same, with_entry, without_entry
from atc.faces.mcp_clients.documents import checked, edited, parsed
from atc.faces.mcp_clients.problems import ConfigProblem
from atc.faces.mcp_clients.records import Client
from atc.faces.mcp_clients.state import Step


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
