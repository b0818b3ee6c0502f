"""The kinds of configuration files, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.faces.mcp_clients.document import Document, Edit, Path, same, settled
from atc.faces.mcp_clients.json_text import JsoncDocument, JsonDocument
from atc.faces.mcp_clients.problems import ConfigProblem
from atc.faces.mcp_clients.records import Form
from atc.faces.mcp_clients.toml_text import TomlDocument
from atc.faces.mcp_clients.yaml_text import YamlDocument

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
