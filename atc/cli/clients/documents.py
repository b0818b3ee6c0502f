"""A client's file, read, and one entry put into it or taken out: by tomlkit, ruamel.yaml, or the standard ``json``.

TOML and YAML that a library cannot write back letter for letter are not edited: the user gets the entry to paste. JSON
is laid out anew where its own indentation does not make the same text.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from atc._host.extras import install_command
from atc._host.trust import parse_toml
from atc.cli.clients.clients import Client
from atc.errors import EnvironmentProblem, UsageError
from atc.tools.parse import parse_document

LIMITS = {"json": 16_000_000, "toml": 250_000, "yaml": 250_000}
"""Bytes that a file may have, by its form."""
_INDENTS = ((2, 2, 0), (2, 4, 2), (4, 2, 0), (4, 4, 2), (4, 6, 4))
"""Of YAML: columns of a mapping, of a list, and of the dash in it, as people write them."""
Edit = Callable[[Any, Callable[[], Any]], None]
"""Changes a document, as its library holds it; the second argument makes an empty mapping."""
_MOST_DEEP = 100
_LAST = "the-last-one"
"""Stands for the last entry of YAML until it is written: an empty mapping would become another line."""


class ConfigProblem(UsageError):
    """A configuration cannot be read or edited. Nothing was written.

    Attributes:
        what: without the file. ``file``: which one, once it is known.
        paste: what the user can add by hand; empty if there is nothing.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.file, self.paste = what, "", ""

    def __str__(self) -> str:
        paste = f". Nothing was written. By hand, it is\n{self.paste}" if self.paste else ""
        return ": ".join(filter(None, [self.file, self.what])) + paste


@dataclass(frozen=True)
class Document:
    """A configuration file, parsed.

    Attributes:
        text: of the whole file, without a byte order mark. ``data``: what it says.
        relaid: whether an edit changed the layout of the rest; ``None`` before the first one.
    """

    client: Client
    text: str
    data: Any
    relaid: bool | None = None

    @classmethod
    def read(cls, client: Client, text: str) -> Document:
        """Parse a text.

        Raises:
            ConfigProblem: it is not of the client's form, too deep, or has something else where servers belong.
        """
        try:
            data = _READERS[client.form](text) if text.strip() else None
            if _is_deep(data):
                raise RecursionError
        except RecursionError:
            raise ConfigProblem("it is nested too deeply") from None
        data = {} if data is None else data
        servers = data.get(client.key) if isinstance(data, dict) else {}
        for what, value in (("the file", data), (client.key, {} if servers is None else servers)):
            if not isinstance(value, dict):
                raise ConfigProblem(f"{what} is a {type(value).__name__}, not a mapping: repair it first")
        return cls(client, text, data)

    @property
    def servers(self) -> dict[str, Any]:
        """The servers by name; empty where there are none."""
        return dict(self.data.get(self.client.key) or {})

    def put(self, name: str, value: Mapping[str, Any]) -> Document:
        """The document with an entry, new or in the place of the one of that name.

        Raises:
            ConfigProblem: the file is written in a way that cannot be kept.
        """
        if name in self.servers and self.client.form != "json":  # a library drops the comments behind what it replaces
            return self.take(name).put(name, value)

        def edit(root: Any, mapping: Callable[[], Any]) -> None:
            if root.get(self.client.key) is None:
                root[self.client.key] = mapping()
            root[self.client.key][name] = dict(value)

        return self._edited(edit, {**self.servers, name: dict(value)})

    def take(self, name: str) -> Document:
        """The document without an entry; comments behind it stay.

        Raises:
            ConfigProblem: as :meth:`put`.
        """

        def edit(root: Any, _: Callable[[], Any]) -> None:
            servers = root[self.client.key]
            if len(servers) == 1 and self.client.form == "yaml" and not servers.fa.flow_style():
                servers[_LAST] = None
            del servers[name]

        return self._edited(edit, {each: entry for each, entry in self.servers.items() if each != name})

    def _edited(self, edit: Edit, servers: Mapping[str, Any]) -> Document:
        unix = self.text.replace("\r\n", "\n")
        dos = "\r\n" in self.text and unix.count("\n") == self.text.count("\r\n")
        before = unix if dos else self.text
        ended = before if before.endswith("\n") or not before.strip() else before + "\n"
        relaid = self.relaid
        if self.client.form == "json":
            texts = [_with_json(before, edit)]
            if relaid is None and before.strip():
                relaid = _with_json(before, lambda *_: None) != before
        else:
            after = (_with_tomlkit if self.client.form == "toml" else _with_ruamel)(ended, edit)
            texts = _least(ended, after, toml=self.client.form == "toml") if ended.strip() else [after]
            texts = [text.removesuffix("\n") if ended != before else text for text in texts]
        expected = _settled({**self.data, self.client.key: servers}, self.client.key)
        for text in texts:
            text = text.replace("\n", "\r\n") if dos else text
            try:
                made = Document.read(self.client, text)
            except ConfigProblem:
                continue
            if _same(_settled(made.data, self.client.key), expected):
                return replace(made, relaid=bool(relaid))
        raise ConfigProblem("it is written in a way that ATC cannot edit and keep the rest as it is")


def snippet(client: Client, servers: Mapping[str, Any]) -> str:
    """Servers as a file of their own that holds nothing else."""
    servers = {client.key: servers}
    if client.form == "toml":
        return str(_library("tomlkit").dumps(servers))
    if client.form == "yaml":
        import yaml

        return str(yaml.safe_dump(servers, sort_keys=False, allow_unicode=True, width=10_000))
    return _dumped(servers, indent=2) + "\n"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, in type too: ``1`` is neither ``True`` nor ``1.0``, and NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)


def _settled(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The data without an empty mapping of servers: to a client it is as good as missing."""
    return {each: value for each, value in data.items() if value or each != key}


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(_MOST_DEEP):
        inside = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [value for values in inside for value in values]
    return bool(level)


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise EnvironmentProblem(f"a file of this client is edited by {name}", fix=install_command("mcp")) from None


# -- TOML and YAML: a library writes the whole, and what it added or removed is looked at ------------------------------


def _read_toml(text: str) -> Any:
    try:
        return parse_toml(text)
    except ValueError as error:  # it says the place
        raise ConfigProblem(f"no TOML: {error}") from None


def _read_yaml(text: str) -> Any:
    try:
        return parse_document(text, "it")
    except UsageError as error:
        raise ConfigProblem(f"no YAML: {error}") from None


def _with_tomlkit(text: str, edit: Edit) -> str:
    tomlkit = _library("tomlkit")
    try:
        document = tomlkit.parse(text)
        if tomlkit.dumps(document) != text:
            raise ConfigProblem("its TOML has a layout that cannot be kept: put its tables in order")
        edit(document, lambda: tomlkit.table(is_super_table=True))
        return str(tomlkit.dumps(document))
    except (ValueError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        raise ConfigProblem(f"its TOML is written in a way that ATC does not edit ({error})") from None


def _with_ruamel(text: str, edit: Edit) -> str:
    ruamel = _library("ruamel.yaml")
    try:
        for mapping, sequence, offset in _INDENTS:
            yaml = ruamel.YAML(typ="rt")
            yaml.preserve_quotes, yaml.width = True, 1 << 20
            yaml.explicit_start = text.startswith("---")
            yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
            root = yaml.load(text)
            if root is None:
                edit(root := {}, dict)
                return (text + _written(yaml, root)).lstrip("\n")
            if _written(yaml, root) == text:
                edit(root, dict)
                return re.sub(rf"^ *{_LAST}:\n", "", _written(yaml, root), count=1, flags=re.MULTILINE)
    except (ruamel.error.YAMLError, ValueError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        raise ConfigProblem(f"its YAML is not edited: {' '.join(str(error).split())[:200]}") from None
    raise ConfigProblem("its YAML has a layout or comments that cannot be kept")


def _written(yaml: Any, root: Any) -> str:
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _least(before: str, after: str, *, toml: bool) -> list[str]:
    """Texts to try for ``after``, the best first: nothing but whole lines is added or removed, and no comment.

    Both libraries count the comments behind an entry to it, though they mostly speak of what follows.
    """
    count = len(after) - len(before)
    longer, shorter = (after, before) if count > 0 else (before, after)
    alike = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(shorter))
    at = shorter.rfind("\n", 0, alike) + 1
    lines, rest = longer[at : at + abs(count)], longer[at + abs(count) :]
    if longer[:at] + rest != shorter:
        remarks = [line[line.index("#") :].strip() for line in before.splitlines() if "#" in line]
        return [after] if all(remark in after for remark in remarks) else []
    if count <= 0:
        behind = _remarks(lines)
        return [longer[:at] + (behind.lstrip("\n") if toml else behind) + rest]
    if toml:  # a table may stand behind all others
        apart = "" if not before.strip() or before.endswith("\n\n") else "\n"
        return [before + apart + lines.strip("\n") + "\n", after]
    between = _remarks(longer[:at]) if rest.strip() else ""
    return [longer[: at - len(between)] + lines + between + rest, after]


def _remarks(text: str) -> str:
    lines = text.splitlines(keepends=True)
    start = len(lines)
    while start and (not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#")):
        start -= 1
    return "".join(lines[start:])


# -- JSON: the standard library writes all of it, with the file's own indentation and its numbers as they stand --------

_NUMBER = "\0number "
"""Begins the text that stands for a number until the whole is written: floats would lose digits."""
_STANDS_FOR = re.compile(re.escape(json.dumps(_NUMBER)[:-1]) + '([^"]*)"')


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        rest, what = text[error.pos :].lstrip(), f"no JSON: {error.msg}"
        if rest[:2] in ("//", "/*"):
            what = "a comment stands here, and ATC cannot keep comments in JSON"
        elif rest[:1] in ("}", "]", ",") and text[: error.pos + 1].rstrip("]} \t\r\n").endswith(","):
            what = "a comma stands before the end, which ATC cannot keep"
        raise ConfigProblem(f"line {error.lineno}, column {error.colno}: {what}") from None
    except ValueError as error:
        raise ConfigProblem(str(error)) from None


_READERS = {"json": _read_json, "toml": _read_toml, "yaml": _read_yaml}


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} stands twice in one object: remove one of them")
    return made


def _with_json(text: str, edit: Edit) -> str:
    body = text.strip()
    root = json.loads(body or "{}", parse_float=_NUMBER.__add__, parse_int=_NUMBER.__add__)
    edit(root := {} if root is None else root, dict)
    if "\n" in body or body in ("", "{}"):
        step = re.search(r"\n([ \t]+)\S", body)
        made = _dumped(root, indent=step[1] if step else 2, ascii=text.isascii())
    else:
        apart = (", ", ": ") if '": ' in body or '":' not in body else (",", ":")
        made = _dumped(root, separators=apart, ascii=text.isascii())
    made = _STANDS_FOR.sub(r"\1", made)
    return text[: len(text) - len(text.lstrip())] + made + (text[len(text.rstrip()) :] if body else "\n")


def _dumped(value: Any, *, ascii: bool = False, **options: Any) -> str:
    text = json.dumps(value, ensure_ascii=ascii, **options)
    return json.dumps(value, **options) if re.search("[\ud800-\udfff]", text) else text
