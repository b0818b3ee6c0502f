"""The blocks of code in the documents."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(language: str) -> list[tuple[str, str]]:
    """Each block of a language, with a name: its document and its number there, from 0."""
    found = []
    for document in DOCUMENTS:
        bodies = re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)
        found += [(f"{document.name}-{number}", body) for number, body in enumerate(bodies)]
    return found
