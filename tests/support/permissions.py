"""Permissions from a text."""

from __future__ import annotations

from pathlib import Path

from atc.calls.permissions import Permissions


def written(folder: Path, text: str) -> Permissions:
    """The permissions of a file with this text."""
    return Permissions.load(file_of(folder, text))


def file_of(folder: Path, text: str) -> Path:
    """A permissions file with this text."""
    path = folder / "permissions.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path
