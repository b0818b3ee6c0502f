"""Where files of kept programs are read from, and whose files count.

A kept program calls the user's tools, so no file is one because it lies somewhere. Those of the data folder
(``Settings.kept_dir``) count where nobody but the user could have written them. Any other file counts once the user has
trusted it with exactly this content (``atc trust``); until then nothing of it is parsed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from atc._host.files import open_plain, why_strange
from atc._host.invisible import visible
from atc._host.trust import ReadFile, TrustStore, place_of
from atc.errors import ToolImportError
from atc.settings import Settings
from atc.tools.kept import LeftOut
from atc.tools.kept_files import MAX_FILE, SUFFIX, KeptFile, read_kept

WORD = "kept"
"""Names all kept programs of the data folder."""
MAX_FILES = 1_000
"""Files of one folder; and a hundred times as many entries that are looked at."""
_DOCUMENTS = (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class ReadPlaces:
    """What was read from files and folders of kept programs.

    Attributes:
        files: in the order of the places, and of their names.
        left_out: files of folders that do not count, or cannot be read.
        named: the files that were named themselves, not by their folder.
    """

    files: tuple[KeptFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    named: frozenset[Path] = frozenset()


def is_kept_place(word: str) -> bool:
    """Return whether a word names kept programs: ``kept``, a file ``NAME.atc``, or a folder that has such files."""
    return word == WORD or word.endswith(SUFFIX) or (bool(word) and _holds_kept(Path(word)))


def _holds_kept(folder: Path) -> bool:
    try:
        return folder.is_dir() and bool(_names_in(folder))
    except (OSError, ValueError):
        return False


def read_places(places: Iterable[str | Path], own: Path | None = None) -> ReadPlaces:
    """Read the kept programs of files and folders. Each file is read once.

    Args:
        places: as :func:`is_kept_place` takes them.
        own: the data folder's own; by default what the settings say.

    Raises:
        ToolImportError: a file that is named itself, or each file of a folder, does not count or cannot be read; or a
            folder holds documents of other tools, too.
    """
    own = Settings.load().kept_dir if own is None else own
    trust = TrustStore()
    files: dict[Path, KeptFile] = {}
    left: list[LeftOut] = []
    named = set()
    for place in places:
        path = own if place == WORD else Path(os.path.expanduser(place))  # Path.expanduser raises without a home
        if path.is_dir():
            read, missed = _folder(path, own, trust)
            if place != WORD and not read:
                raise ToolImportError(missed[0].reason if missed else f"{path} holds no file NAME{SUFFIX}")
            files |= {place_of(file.path): file for file in read if file.path is not None}
            left += missed
        elif place != WORD:
            file = _file(path, own, trust)
            files[place_of(path)] = file
            named.add(path)
    return ReadPlaces(tuple(files.values()), tuple(left), frozenset(named))


def _folder(folder: Path, own: Path, trust: TrustStore) -> tuple[list[KeptFile], list[LeftOut]]:
    try:
        names = _names_in(folder)
        others = folder != own and any(name.endswith(_DOCUMENTS) for name in _entries(folder))
    except OSError as error:
        raise ToolImportError(f"{folder} cannot be read: {error.strerror}") from None
    if others:
        raise ToolImportError(
            f"{folder} holds protocol documents and kept programs: put them into two folders, or name each file "
            f"NAME{SUFFIX}"
        )
    if len(names) > MAX_FILES:
        raise ToolImportError(f"{folder} holds more than {MAX_FILES:,} kept programs: name the files that you need")
    read, left = [], []
    for name in names:
        try:
            read.append(_file(folder / name, own, trust))
        except ToolImportError as error:
            left.append(LeftOut(visible(name.removesuffix(SUFFIX)), str(folder / name), str(error)))
    return read, left


def _names_in(folder: Path) -> list[str]:
    return sorted(name for name in _entries(folder) if name.endswith(SUFFIX) and not name.startswith("."))


def _entries(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, 100 * MAX_FILES)]


def _file(path: Path, own: Path, trust: TrustStore) -> KeptFile:
    where = visible(str(path))
    file = read_bytes(path)
    trusted = trust.trusts(file)
    if not trusted:
        is_own = file.path.parent == own.resolve()
        why = why_strange(path) if is_own else ""
        if why or not is_own:
            raise ToolImportError(_not_trusted(where, why, changed=trust.knows(path)))
    return read_kept(file.content, where, path, edited=trusted)


def _not_trusted(where: str, why: str, *, changed: bool) -> str:
    reason = (
        "it has changed since you trusted it"
        if changed
        else visible(why)
        if why
        else "a kept program calls your tools, and this one is not in your data folder"
    )
    return f"{where} is not trusted: {reason}. Read it, and accept it with `atc trust {where}`"


def read_bytes(path: Path) -> ReadFile:
    """Return a file of a kept program as it is. A link is not followed: it may lead anywhere, and elsewhere tomorrow.

    Raises:
        ToolImportError: there is none, it is a link or no ordinary file, or it is too long.
    """
    where = visible(str(path))
    try:
        with open_plain(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)) as file:
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise ToolImportError(f"there is no file {where}") from None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        what = "is a link: name the file itself, or copy it" if is_link else f"cannot be read: {error.strerror}"
        raise ToolImportError(f"{where} {what}") from None
    if len(content) > MAX_FILE:
        raise ToolImportError(f"{where} has more than {MAX_FILE:,} bytes: a kept program is shorter")
    return ReadFile(place_of(path), content)


def kept_files_at(path: Path) -> list[ReadFile]:
    """Return the files of kept programs at a path, as they are, for the user to read: the file, or those of a folder.

    Raises:
        ToolImportError: one of them cannot be read.
    """
    if path.is_dir():
        return [read_bytes(path / name) for name in _names_in(path)]
    return [read_bytes(path)] if path.name.endswith(SUFFIX) else []
