"""Notes behind an MCP server whose tools have no output schema: JSON comes as text, some of it as plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KIND = "mcp"
TASKS = (
    "How many notes are in each notebook? Answer with a dict.",
    "Which tag is used most often? Answer with the tag.",
    "List the titles of the notes that link to a note which does not exist, sorted.",
    "How many words do all notes have together (split at white space)?",
    "Which note was edited last? Answer with its title.",
    "Append the line '- milk' to the note 'Shopping'. Answer with what the tool says.",
    "Which two notebooks share the most tags? Answer with their names, sorted.",
    "Give the open to-dos ('- [ ] ') of all notes as a sorted list of their texts.",
    "What share of all to-dos is done, in percent without decimals?",
    "Which notes have no tags? Titles, sorted.",
    "Give a dict from tag to the titles that carry it, both sorted.",
    "How many links does the most linked-to note get, and which one is it? Answer as [title, number].",
    "Is there a chain of links from 'Home' to 'Archive'? Answer true or false.",
    "Which day had the most edits? Answer with the date.",
    "Create a note 'Index' in the notebook work with one line a note of that notebook, sorted. Answer with its id.",
    "What is the longest line over all notes? Answer with it.",
    "Add the tag 'done' to each note whose to-dos are all done (and that has some). Answer with the ids, sorted.",
    "Which notes mention a price such as '3.50 EUR'? Answer with a dict from title to the sum of the prices.",
    "How many notes were edited in the 24 hours before the last edit, the last one included?",
    "Give the first heading ('# ') of each note, as a dict from title to heading or null.",
)
_ID = {"type": "object", "properties": {"note_id": {"type": "string"}}, "required": ["note_id"]}
_READ, _WRITE = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}
MCP: dict[str, dict[str, Any]] = {
    "list_notes": {
        "description": "List notes: a JSON list of objects with id, title, notebook, tags and edited (a time).",
        "inputSchema": {"type": "object", "properties": {"notebook": {"type": "string"}}},
        "annotations": _READ,
    },
    "read_note": {"description": "The text of a note, as Markdown.", "inputSchema": _ID, "annotations": _READ},
    "links_of": {
        "description": "The titles that a note links to, as a JSON list.",
        "inputSchema": _ID,
        "annotations": _READ,
    },
    "append_line": {
        "description": "Append a line to a note. Says what it did.",
        "inputSchema": {
            "type": "object",
            "properties": {"note_id": {"type": "string"}, "line": {"type": "string"}},
            "required": ["note_id", "line"],
        },
        "annotations": _WRITE,
    },
    "create_note": {
        "description": "Create a note. The answer is JSON with its id.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "notebook": {"type": "string"},
                "text": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            },
            "required": ["title", "notebook", "text"],
        },
        "annotations": _WRITE,
    },
    "add_tag": {
        "description": "Add a tag to a note. The answer is JSON: the note's tags.",
        "inputSchema": {
            "type": "object",
            "properties": {"note_id": {"type": "string"}, "tag": {"type": "string"}},
            "required": ["note_id", "tag"],
        },
        "annotations": _WRITE,
    },
}
_NOTES = [
    ("n1", "Home", "private", ["start"], "2026-05-01T09:00", "# Welcome\nSee [[Shopping]] and [[Plans]].\n"),
    (
        "n2", "Shopping", "private", ["list", "food"], "2026-05-03T18:30",
        "- [ ] bread 3.50 EUR\n- [x] apples 2.20 EUR\n- [ ] tea\n",
    ),
    (
        "n3", "Plans", "work", ["list"], "2026-05-03T20:00",
        "# Plans 2026\n- [x] write the report\n- [x] send it\nLater: [[Archive]], [[Budget]]\n",
    ),
    ("n4", "Archive", "work", [], "2026-04-11T08:00", "Old things, kept for the record. See [[Home]].\n"),
    ("n5", "Recipe", "private", ["food"], "2026-04-11T12:15", "# Bread\n## Dough\nFlour, water, salt; 1.20 EUR a loaf.\n"),
]  # fmt: skip


def functions() -> list[Callable[..., Any]]:
    """What the server does; what is written stays the same for every caller."""

    def list_notes(notebook: str | None = None) -> list[dict[str, Any]]:
        return [
            {"id": i, "title": t, "notebook": b, "tags": tags, "edited": at}
            for i, t, b, tags, at, _ in _NOTES
            if notebook in (None, b)
        ]

    def read_note(note_id: str) -> str:
        return next(text for i, *_, text in _NOTES if i == note_id)

    def links_of(note_id: str) -> list[str]:
        return [part.split("]]")[0] for part in read_note(note_id).split("[[")[1:]]

    def append_line(note_id: str, line: str) -> str:
        return f"appended {len(line)} characters to {note_id}"

    def create_note(title: str, notebook: str, text: str, tags: list[str] | None = None) -> dict[str, Any]:
        return {"id": f"new-{title.lower()}", "lines": text.strip().count("\n") + 1, "tags": tags or []}

    def add_tag(note_id: str, tag: str) -> list[str]:
        return [*next(tags for i, _, _, tags, *_ in _NOTES if i == note_id), tag]

    return [list_notes, read_note, links_of, append_line, create_note, add_tag]
