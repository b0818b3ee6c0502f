"""The blocks of code in the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    *sorted((ROOT / "research").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        document: the file that has it.
        number: among the blocks of its language there, from 0.
        language: what stands after the fence: ``python``, ``console``, ``sh``, ``text`` …
        title: the file that the block is, where its fence has ``title="…"``; else empty.
        body: what it holds, without the indentation of its fence.
        line: of its fence, from 1.
    """

    document: Path
    number: int
    language: str
    title: str
    body: str
    line: int

    @property
    def name(self) -> str:
        """Its document and its number there."""
        return f"{self.document.relative_to(ROOT).as_posix().removeprefix('docs/')}-{self.number}"


def blocks_of(document: Path) -> Iterator[Block]:
    """Each block of a document, in order."""
    text = document.read_text(encoding="utf-8")
    numbers: dict[str, int] = {}
    for found in FENCE.finditer(text):
        indent, language, rest, body = found.groups()
        title = re.search(r'title="([^"]*)"', rest)
        number = numbers.get(language, 0)
        numbers[language] = number + 1
        yield Block(
            document, number, language, title[1] if title else "",
            re.sub(rf"^{indent}", "", body, flags=re.MULTILINE), text.count("\n", 0, found.start()) + 1,
        )  # fmt: skip


def blocks(language: str) -> list[tuple[str, str]]:
    """Each block of a language that is no file, with a name: its document and its number there, from 0."""
    return [
        (block.name, block.body)
        for document in DOCUMENTS
        for block in blocks_of(document)
        if block.language == language and not block.title
    ]
