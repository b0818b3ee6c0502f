"""What people mean by a pattern over a command line, an address or a path: more than its letters.

``git *`` means one command of git, and ``*@good.example`` one address. So a wildcard of a rule that allows covers no
character by which a text becomes something else, such as ``;`` or a second ``@``. A rule that restricts is held against
each command, address and path that a text has within.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

Meaning = Literal["command", "statement", "address", "url"]

_STATEMENT = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH|EXPLAIN|SHOW|DESCRIBE|PRAGMA|VALUES)\s")
_ADDRESS = re.compile(r"[^\s@/]*@[^\s@/]*|[^@<]*<[^\s@/<]*@[^\s@/]*>")
_URL = re.compile(r"([^\s:/]+)://([^/?#]*)")
_HOST = re.compile(r"[^:/?#]*://([^/?#\\]*)")

_NOT_COVERED: dict[Meaning, str] = {
    "command": ";&|<>()`$\n\r\v\f\x85\u2028\u2029",
    "statement": ";",
    "address": '@,;:<>()[]"\\%! \t\n\r\v\f\x85\u2028\u2029',
    "url": '\\<>" \t\n\r\v\f\x85\u2028\u2029',
}
_SHELLS = frozenset("sh ash bash dash zsh ksh csh tcsh fish cmd pwsh powershell".split())
_RUNNERS = _SHELLS.union(
    "sudo doas su env nohup nice ionice time timeout watch xargs parallel find exec eval command builtin".split(),
    "source . busybox toybox setsid stdbuf script strace start call ssh chroot unshare".split(),
    "if then else elif do while until ! {".split(),
)
"""Words behind which another command stands."""
_PARTS = re.compile(r"[;&|<>()`\n\r\v\f\x85\u2028\u2029]|\$\(")
_WORD = r"[^\s;&|(){}<>`$*?\[]"
_UNKNOWN = re.compile(rf"(?:^|[;&|(){{}}\n\r])[^\S\n\r]*(?:{_WORD}*[$`]|{_WORD}+[*?\[]|\{{[^\s{{}};]*,)")
"""What is run has a name that a shell makes."""
_REDIRECTION = re.compile(r"\d{0,3}[<>]{1,3}&?[ \t]{0,9}[^\s()<>;&|]+|\\\n")
_COMMENT = re.compile(r"\([^()]*\)")
_BESIDE = re.compile(r"[\s,;:<>()\[\]{}'|=&?]+")
_BEFORE = re.compile(r"\A(?:(?:[a-z][a-z0-9.+-]*:)*file:(?://[^/]*(?=/))?)?(?:/+proc/[^/]+/root(?=/))*")
"""What may stand before a path and leads nowhere else."""


def meaning_of(pattern: str) -> Meaning | None:
    """Return what a pattern is taken for, by its form; ``None`` for one that means its letters alone."""
    wild = any(character in pattern for character in "*?[")
    if _URL.match(pattern):
        return "url"
    if _ADDRESS.fullmatch(pattern):
        return "address"
    if not wild or len(pattern.split()) < 2:
        return None
    return "statement" if _STATEMENT.match(pattern) else "command"


def is_one(pattern: str, text: str) -> bool:
    """Return whether a text that fits a pattern, letter by letter, is one command, address or URL, as it means."""
    meaning = meaning_of(pattern)
    if meaning is None:
        return True
    wanted = _URL.match(pattern)
    if wanted is not None:
        host = _HOST.match(text)
        if host is None or not fnmatchcase(host[1], wanted[2]) or {"@", ":"} & {*host[1]} - {*wanted[2]}:
            return False
    if meaning == "statement":
        text = text.rstrip().removesuffix(";")
    mine, theirs = Counter(pattern), Counter(text)
    return all(theirs[each] <= mine[each] for each in _NOT_COVERED[meaning])


def parts_of(form: str, meanings: frozenset[Meaning], spend: Callable[[int], bool]) -> list[str] | None:
    """Return what a text holds that a rule which restricts may mean; ``None`` where nobody can tell.

    Args:
        form: of the text, in small letters, with nothing hidden in it.
        meanings: of the rule's patterns.
        spend: counts characters that are written, and returns whether so many may be.
    """
    found = [*_addresses(form)] if "@" in form else []
    found += _paths(form)
    if "url" in meanings:
        found += _urls(form)
    if "command" in meanings:
        commands = _commands(form, spend)
        return None if commands is None else found + commands
    return found


def _addresses(form: str) -> Iterator[str]:
    """Yield each address of a display name, a list, a link: also without its tag, and as a relay would send it on."""
    bare = re.sub(r" ?@ ?", "@", " ".join(_COMMENT.sub("", form).replace('"', "").replace("\\", "").split()))
    for each in _BESIDE.split(bare):
        local, sign, domain = each.rpartition("@")
        if not sign:
            continue
        domain = domain.strip(".")
        yield f"{local}@{domain}"
        yield f"{local.partition('+')[0]}@{domain}"
        if routed := re.fullmatch(r"(.+)[%@]([^%@]+)", local):
            yield f"{routed[1]}@{routed[2]}"
        elif "!" in local:
            host, _, user = local.rpartition("!")
            yield f"{user}@{host.rpartition('!')[2]}"


def _paths(form: str) -> Iterator[str]:
    for each in re.split(r"[,;\n]", form) if "/" in form or "\\" in form else ():
        each = each.strip().strip("\"'<>")
        path = re.sub(r"[/\\]+", "/", _BEFORE.sub("", each, count=1))
        if path != form:
            yield path


def _urls(form: str) -> Iterator[str]:
    """Yield each URL without a user, the port of its scheme and a dot behind its host."""
    for each in re.split(r"[\s,;<>\"']+", form.replace("\\", "/")):
        if found := re.fullmatch(r"([a-z][a-z0-9.+-]*):/*(?:[^/?#]*@)?([^/?#:@]*?)\.?(?::\d*)?([/?#].*)?", each):
            yield f"{found[1]}://{found[2]}{found[3] or '/'}"
            yield f"{found[1]}://{found[2]}{found[3] or ''}"


def _commands(form: str, spend: Callable[[int], bool]) -> list[str] | None:
    """Return each command of a line, without what runs it; ``None`` where nobody can tell what is run."""
    form = re.sub(r"\$(?:ifs|\{ifs[^}]{0,20}\})", " ", _REDIRECTION.sub("", form))
    if _UNKNOWN.search(form):
        return None
    found = []
    for part in _PARTS.split(form):
        part = re.sub("[\"'^]", "", part)
        for words in (part.replace("\\", "").split(), part.replace("\\", "/").split()):
            while words and re.fullmatch(r"\w+=\S*", words[0]):
                del words[0]
            runs = bool(words) and _name(words[0]) in _RUNNERS
            if runs and (_reads_commands(words) or not spend(len(words) * len(part))):
                return None
            for at in range(len(words) if runs else min(1, len(words))):
                found.append(" ".join([_name(words[at]), *words[at + 1 :]]))
    return found


def _reads_commands(words: list[str]) -> bool:
    return _name(words[0]) in _SHELLS and all(word[0] in "-/" for word in words[1:])


def _name(word: str) -> str:
    return re.split(r"[/\\]", word)[-1].removesuffix(".exe")


_FITS: dict[Meaning, tuple[str, str]] = {
    "command": (
        "one command: its wildcard covers no ; & | < > ( ) ` $ and no line break",
        "each command of a text, also behind `sudo`, `sh -c` and the like",
    ),
    "statement": ("one statement: its wildcard covers no semicolon before more text", ""),
    "address": (
        "one address: its wildcard covers no second one, no display name and no list",
        "each address of a text: in a name, a list or a link, in any letter case",
    ),
    "url": (
        "one URL: its wildcard covers no other host, no user and no blank",
        "each URL of a text, whatever its user and port",
    ),
}


def how_read(pattern: str, *, allows: bool) -> str:
    """Return what a pattern of a rule fits that looks like a command or an address; empty for any other."""
    meaning = meaning_of(pattern)
    if allows and re.fullmatch(r"[\w-]+\*", pattern):
        return "whatever begins so, also several commands; with a blank before the * it fits one command"
    if allows and meaning == "command" and _name(pattern.split()[0]) in _RUNNERS:
        return f"every command, for `{pattern.split()[0]}` runs others"
    return "" if meaning is None else _FITS[meaning][not allows]
