"""Settings files that came with a folder: what they may set unasked, and which of them the user has trusted.

Whoever clones a repository and works in it has not read its ``atc.toml``. Such a file may say how programs are written
and how tools are picked. What decides where keys, data and programs go, what is done unasked, and what a run may cost
counts only once the user has trusted the file with exactly this content (``atc trust``).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from atc._host.files import make_private, open_plain, write_whole
from atc._host.invisible import visible
from atc.errors import SettingsError, UsageError
from atc.parts import RETRIEVAL

# ----------------------------------------------------------------------------------------------------------------------
# TOML that a stranger may have written: bounded before it is parsed.
#
# Python's parser keeps every beginning of a dotted key (``a.b.c`` and 20,000 parts more, 40 KB, take 1.6 GB), and calls
# itself for each list in a list. One look at the text, linear in it, finds both before that.


MAX_PARTS, MAX_NESTED = 16, 16
"""Parts of a dotted key, and lists and tables in each other."""
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+(?:"|\n|\Z)'
    r"|'[^'\n]*+(?:'|\n|\Z)"
    r"|#[^\n]*+|[][{}.=,\n]",
    re.DOTALL,
)
"""What counts, and texts and comments, in which nothing does. A text without an end goes on to the end of the line or
the file: there the parser stops, too."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML document holds.

    Raises:
        ValueError: it is no TOML, or nested too deeply; with the line.
    """
    parts, nested, line = 1, 0, 1
    for token in _TOKEN.finditer(text):
        match token[0]:
            case ".":
                parts += 1
            case "[" | "{":
                nested, parts = nested + 1, 1
            case "]" | "}":
                nested, parts = max(0, nested - 1), 1
            case "=" | "," | "\n":
                parts = 1
            case string if string.endswith("\n"):  # a text without an end
                parts = 1
        if parts > MAX_PARTS:
            raise ValueError(f"line {line} has a key of more than {MAX_PARTS} parts: write a shorter one")
        if nested > MAX_NESTED:
            raise ValueError(f"line {line} has more than {MAX_NESTED} lists and tables in each other: write fewer")
        line += token[0].count("\n")
    return tomllib.loads(text)


# ----------------------------------------------------------------------------------------------------------------------
# Settings files that came with a folder: what they may set unasked, and which of them the user has trusted.


FILE = "atc.toml"
FREE = frozenset({
    "cache", "find_tools", "list_tokens", "retrieval", "seed", "sentence", "stub_tokens", "temperature",
})  # fmt: skip
"""What any file may set. Every other setting needs trust: also those that are still to come."""
SECRET = frozenset({"api_key", "approval_secret", "approver_key", "sandbox_token", "store"})
MAX_FILE = 100_000
"""Bytes of a settings file: whoever is to trust it reads it."""
_MAX_TRUSTED = 1_000_000
"""Bytes that are read of a file that was trusted: more than any kind of file may have."""
State = Literal["trusted", "changed", "gone"]


def is_free(name: str, value: Any) -> bool:
    """Return whether any file may set this: a name of :data:`FREE`, whose value names no code of another package."""
    if name == "retrieval":
        return not isinstance(value, str) or value in RETRIEVAL.ours
    return name in FREE


@dataclass(frozen=True)
class ReadFile:
    """A file as it was read, once: what is shown, trusted and used are the same bytes."""

    path: Path
    content: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in hex."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class SettingsFile(ReadFile):
    """A settings file, and what it sets."""

    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> SettingsFile | None:
        """Return the file; ``None`` if there is none.

        Raises:
            SettingsError: it cannot be read, is no TOML, or is too large or nested too deeply to be parsed unasked.
        """
        try:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                content = file.read(MAX_FILE + 1)
            if len(content) > MAX_FILE:
                raise ValueError(f"it has more than {MAX_FILE:,} bytes: make it shorter")
            return cls(place_of(path), content, parse_toml(content.decode()))
        except (OSError, ValueError, RecursionError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from None

    @property
    def guarded(self) -> dict[str, Any]:
        """Return what it sets that needs trust, as it may be shown."""
        return {name: value for name, value in self.shown.items() if not is_free(name, value)}

    @property
    def shown(self) -> dict[str, Any]:
        """Return all that it sets, secrets masked. A store's address keeps all but passwords: it says where runs go."""
        return {name: _shown(name, value) for name, value in self.values.items()}


def _shown(name: str, value: Any) -> Any:
    if name not in SECRET:
        return value
    if name != "store" or not isinstance(value, str):
        return "[secret]"
    from atc._host.database_address import masked

    return masked(value)


class _StoredTrust(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = 1
    files: dict[str, str]


class TrustStore:
    """The files that the user has trusted, with the SHA-256 of their content, in the user's own settings folder."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or platformdirs.user_config_path("atc") / "trusted.json"

    def trusts(self, file: ReadFile) -> bool:
        """Return whether exactly this content of this file was trusted.

        Raises:
            SettingsError: the store cannot be believed.
        """
        return self._files().get(str(file.path)) == file.digest

    def add(self, file: ReadFile) -> None:
        """Trust a file as it is.

        Raises:
            SettingsError: the store cannot be believed, or not written.
        """
        self._write({**self._files(), str(file.path): file.digest})

    def remove(self, path: Path) -> bool:
        """Trust a file no more; whether it was trusted.

        Raises:
            SettingsError: the store cannot be believed, or not written.
        """
        files = self._files()
        known = files.pop(str(place_of(path)), None) is not None
        if known:
            self._write(files)
        return known

    def knows(self, path: Path) -> bool:
        """Return whether a file was trusted once, with this content or another.

        Raises:
            SettingsError: the store cannot be believed.
        """
        return str(place_of(path)) in self._files()

    def states(self) -> dict[str, State]:
        """Return every file that was trusted, and whether it still is.

        Raises:
            SettingsError: the store cannot be believed.
        """
        return {path: _state(Path(path), digest) for path, digest in sorted(self._files().items())}

    def _files(self) -> dict[str, str]:
        try:
            with open_plain(self.path) as file:
                about = os.fstat(file.fileno())
                content = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be read: {error.strerror}") from None
        if about.st_uid not in (os.getuid(), 0) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SettingsError(f"others can write {self.path}: look at what it trusts, and `chmod 600` it")
        try:
            return _StoredTrust.model_validate_json(content).files
        except ValidationError:
            raise SettingsError(f"{self.path} is damaged: delete it, and trust your files again") from None

    def _write(self, files: Mapping[str, str]) -> None:
        text = _StoredTrust(files=dict(files)).model_dump_json(indent=1) + "\n"
        try:
            make_private(self.path.parent)
            write_whole(self.path, text)
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be written: {error.strerror}") from None


def place_of(path: Path) -> Path:
    """Return where a file is. A link counts as itself: what the file names is looked for from the link's folder."""
    return path.parent.resolve() / path.name


def _state(path: Path, digest: str) -> State:
    try:
        with open_plain(path) as file:
            return "trusted" if hashlib.sha256(file.read(_MAX_TRUSTED)).hexdigest() == digest else "changed"
    except OSError:
        return "gone"


class TrustedFileSource(PydanticBaseSettingsSource):
    """The settings of ``atc.toml`` in the working folder, for pydantic: after arguments and variables."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError  # it gives all values at once

    def __call__(self) -> dict[str, Any]:
        """
        Raises:
            SettingsError: the file cannot be read, or sets what needs trust and is not trusted.
        """
        file = SettingsFile.read(Path(FILE))
        if file is None:
            return {}
        counts = {name: value for name, value in file.guarded.items() if name not in self.current_state}
        known = {name: value for name, value in counts.items() if name in self.settings_cls.model_fields}
        if known and not TrustStore().trusts(file):
            shown = ", ".join(f"{name}={visible(repr(value))[:100]}" for name, value in known.items())
            raise SettingsError(
                f"{file.path} is not trusted, so it may not set {shown}: read it, and accept it with `atc trust`; or "
                "set this by argument or by ATC_* variables, which are stronger than the file"
            )
        return file.values


def settings_file(path: Path) -> SettingsFile:
    """Return the file at a path, or ``atc.toml`` in the folder that it names.

    Raises:
        UsageError: there is none.
        SettingsError: it cannot be read.
    """
    file = SettingsFile.read(path / FILE if path.is_dir() else path)
    if file is None:
        raise UsageError(f"there is no settings file {path / FILE if path.is_dir() else path}")
    return file
