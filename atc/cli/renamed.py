"""Names of the version before: each is taken as what it is now, and a line on stderr says so.

All of it stands here, so that the next version removes it by removing this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from atc.cli import command_at

MOVED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("approvals",): ("runs", "approvals"),
    ("atlas", "serve"): ("tools", "serve-demo"),
    ("audit",): ("permissions", "audit"),
    ("call",): ("tools", "call"),
    ("learn",): ("tools", "learn"),
    ("serve",): ("sandbox", "serve"),
    ("show",): ("runs", "show"),
}
"""Commands: the words that named them → the words that name them now."""

OPTIONS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("batch",): {
        "--budget-model-calls": "--total-model-calls",
        "--budget-money": "--total-money",
        "--budget-s": "--total-s",
        "--budget-tokens": "--total-tokens",
    },
    ("graph", "correct"): {"--yes": "--exists", "--no": "--absent"},
    ("graph", "path"): {"--many": "--limit", "-k": "--limit"},
    ("model", "pull"): {"--dir": "--output"},
    ("permissions", "audit"): {"--last": "--limit"},
    ("probe",): {"--sandbox-tenant": "--test-account"},
    ("runs", "show"): {"--html": "--output"},
    ("tools", "browse"): {"--html": "--output"},
    ("tools", "index"): {"--out": "--output"},
    ("tools", "search"): {"--way": "--retrieval"},
}
"""Options of commands: the name before → the name now."""

_AS_SUBCOMMAND = {"--delete": "delete", "--keep": "delete", "--search": "search"}
"""Options of ``atc runs`` that are commands of it now."""
_WITH_DELETE = ("--in-doubt", "--replies", "--lessons")


def renamed(words: list[str]) -> list[str]:
    """Return a command line in the names of this version; print a line for each name that was an old one.

    Args:
        words: what stands behind ``atc``.
    """
    at = next((place for place, word in enumerate(words) if not word.startswith("-")), len(words))
    options, rest = words[:at], words[at:]
    lines: list[str] = []
    for old, new in MOVED.items():
        if tuple(rest[: len(old)]) == old:
            lines.append(_said(f"atc {' '.join(old)}", f"atc {' '.join(new)}"))
            rest = [*new, *rest[len(old) :]]
            break
    rest = _runs(rest, lines)
    for path, names in OPTIONS.items():
        if tuple(rest[: len(path)]) == path:
            rest = [*path, *_named(rest[len(path) :], names, lines)]
    for path, position in _POSITIONS.items():
        if tuple(rest[: len(path)]) == path:
            rest = [*path, *position(path, rest[len(path) :], lines)]
    if lines:
        _print(dict.fromkeys(lines))
    return [*options, *rest]


def _said(old: str, new: str) -> str:
    return f"`{old}` is now `{new}`; the next version does not take the old name"


def _print(lines: Mapping[str, Any]) -> None:
    from atc.cli.console import clean, err

    for line in lines:
        err.print(clean(f"atc: {line}"), markup=False, style="yellow")


def _named(words: list[str], names: Mapping[str, str], lines: list[str]) -> Iterator[str]:
    """Yield the words behind a command, with each option under its present name."""
    for place, word in enumerate(words):
        if word == "--":
            yield from words[place:]
            return
        name, sign, value = word.partition("=")
        new = names.get(name, name)
        if new != name:
            lines.append(_said(name, new))
        yield f"{new}{sign}{value}"


def _runs(words: list[str], lines: list[str]) -> list[str]:
    """Return ``atc runs --delete RUN`` as ``atc runs delete RUN``, and the like."""
    if words[:1] != ["runs"] or not words[1:] or not words[1].startswith("-"):
        return words
    given = {word.partition("=")[0] for word in words[1:]}
    option = next((each for each in _AS_SUBCOMMAND if each in given), None)
    if option is None and given & {*_WITH_DELETE, "--yes"}:
        option = "--delete"
    if option is None:
        return words
    command = _AS_SUBCOMMAND[option]
    lines.append(_said(f"atc runs {option}", f"atc runs {command}"))
    made: list[str] = []
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if name not in ("--delete", "--search"):
            made.append(word)
        elif sign:
            made.append(value)
    return ["runs", command, *made]


def _positions(path: tuple[str, ...], words: list[str]) -> list[int]:
    """Return where the arguments stand among the words behind a command: those that are no option and no value."""
    takes_value = {
        name
        for each in command_at(*path).params
        if each.param_type_name == "option" and not (each.is_flag or each.count)
        for name in each.opts
    }
    found: list[int] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return [*found, *range(place + 1, len(words))]
        if not word.startswith("-") or word == "-":
            found.append(place)
        place += 1 + (word in takes_value)
    return found


def _has_unknown_option(path: tuple[str, ...], words: list[str]) -> bool:
    """Return whether a command does not have an option that it is given, so that no word is known to be an argument."""
    known = {name for each in command_at(*path).params for name in (*each.opts, *each.secondary_opts)}
    given = words[: words.index("--")] if "--" in words else words
    return any(word.startswith("--") and word.partition("=")[0] not in known for word in given)


def _with_option(option: str, which: Callable[[list[str], list[str]], int]) -> Callable[..., list[str]]:
    """Return what writes an option before the first arguments of a command.

    Args:
        option: to write.
        which: how many arguments it is for, by all of them and the words.
    """

    def write(path: tuple[str, ...], words: list[str], lines: list[str]) -> list[str]:
        if "--help" in words or "-h" in words or _has_unknown_option(path, words):
            return words
        places = _positions(path, words)
        chosen = {*places[: which([words[each] for each in places], words)]}
        if not chosen:
            return words
        value = "SOURCE" if option == "--tools" else "FILE"
        where = f"atc {' '.join(path)}"
        lines.append(_said(f"{where} {value}", f"{where} {option} {value}"))
        return [part for place, word in enumerate(words) for part in ([option, word] if place in chosen else [word])]

    return write


def _is_source(word: str) -> bool:
    """Return whether a word names a source of tools, and no tool."""
    return word in ("atlas", "kept") or any(sign in word for sign in "./:")


def _before_names(arguments: list[str], words: list[str]) -> int:
    """Return 1 if the first argument is a source and the names of tools stand behind it."""
    named = "ATC_TOOLS" in os.environ or any(word.partition("=")[0] in ("--tools", "-t") for word in words)
    return int(bool(arguments) and (not named or _is_source(arguments[0])))


_all = _with_option("--tools", lambda arguments, _: len(arguments))
_POSITIONS: Mapping[tuple[str, ...], Callable[..., list[str]]] = {
    ("graph", "export"): _with_option("--output", lambda arguments, _: len(arguments)),
    ("probe",): _all,
    ("tools", "browse"): _all,
    ("tools", "index"): _all,
    ("tools", "list"): _all,
    ("tools", "show"): _with_option("--tools", lambda arguments, _: int(len(arguments) > 1)),
    ("tools", "stub"): _with_option("--tools", _before_names),
}
"""Commands whose first arguments are values of an option now."""
