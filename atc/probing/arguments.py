"""The schema of a tool's arguments, from calls that were accepted and calls that were refused (ATC §4.1).

Accepted calls tell types. Refused calls tell what a service says of them: what is missing, what a value must be one of,
its bounds. Each statement carries its evidence, ``x-atc-evidence``: ``{"seen": 3, "of": 3, "refused_without": 1}``
is an argument of all three accepted calls whose absence was refused once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from atc.errors import UsageError
from atc.probing.error_messages import ErrorDetail, read_error_message
from atc.schemas.infer.shape import RANGE, Shape
from atc.schemas.infer.text import is_secret_name, listed, looks_secret, words
from atc.schemas.types import EVIDENCE, OBSERVED

MAX_ARGUMENTS = 200
"""Different arguments of one tool; further ones are left out."""
MAX_STATEMENTS = 20
"""Different claims about one argument that are kept."""
MAX_EXAMPLES, MAX_EXAMPLE_LENGTH = 3, 80
"""Accepted values that are shown, and characters of one as JSON."""
NONSENSE, NOBODYS = "zzqx-none", -987_654_321
"""A text and a number that no service accepts, sent to read its refusal. They are never shown as an example."""
VERSION = 1
_UNINFORMATIVE = frozenset((401, 402, 403, 405, 406, 408, 409, 410, 425, 429))
"""Statuses that say nothing of the arguments, nor do those of 500 and more."""
_OF_ARGUMENTS = (400, 422, "invalid_arguments", "TypeError")
"""Statuses that say that the arguments are wrong; 404 may as well say that nothing has this name."""
_USUALLY_OPTIONAL = listed(
    "limit offset page pages size count per cursor sort order lang language locale units unit format fields include "
    "exclude expand filter verbose timeout callback pretty max min top skip"
)
_BOUNDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)


class _Argument:
    """Evidence of one argument.

    Attributes:
        values: the values of accepted calls.
        missing: refusals that said it was missing.
        without: accepted calls without it; ``refused_without`` are the refused ones.
        unknown: refusals that said there is no such argument.
        claims: what the service said of its values: schema keywords as JSON text, with how often.
        other_type: refusals of an accepted call in which this argument alone had a value of another type.
    """

    def __init__(self, name: str) -> None:
        self.values = Shape(name)
        self.examples: list[Any] = []
        self.missing = self.refused_without = self.unknown = self.other_type = 0
        self.claims: dict[str, int] = {}
        self.where = ""

    def to_json(self) -> dict[str, Any]:
        """The argument as a record keeps it."""
        kept = {"said" if name == "claims" else name: value for name, value in vars(self).items()}
        return {**kept, "values": self.values.to_json()}

    def take(self, detail: ErrorDetail) -> None:
        self.where = self.where or detail.where
        if detail.problem == "missing":
            self.missing += 1
        elif detail.problem == "unknown":
            self.unknown += 1
        elif detail.expected:
            text = json.dumps(detail.expected, sort_keys=True, ensure_ascii=False)
            if text in self.claims or len(self.claims) < MAX_STATEMENTS:
                self.claims[text] = self.claims.get(text, 0) + 1


class ArgumentEvidence:
    """What is known of a tool's arguments."""

    def __init__(self) -> None:
        self._arguments: dict[str, _Argument] = {}
        self.accepted_count = 0
        self.refused_count = 0
        self._last_accepted: Mapping[str, Any] | None = None  # not kept: it may hold a secret

    def accepted(self, arguments: Mapping[str, Any]) -> None:
        """Take a call that the tool answered."""
        self.accepted_count += 1
        self._last_accepted = arguments
        for name, value in arguments.items():
            if (argument := self._argument(name)) is not None:
                argument.values.add(value)
                if not is_secret_name(name):
                    _keep_example(argument.examples, value)

    def refused(self, arguments: Mapping[str, Any], message: Any, status: int | str | None = None) -> None:
        """Take a call that the tool refused.

        Args:
            arguments: what it was called with.
            message: the text or body of the refusal.
            status: its status. One that says nothing of arguments (no right, too many calls, the service's own failure)
                makes the refusal no evidence.
        """
        if _is_uninformative(status):
            return
        self.refused_count += 1
        other = _other_type(self._last_accepted, arguments) if status in _OF_ARGUMENTS else ""
        if other and (argument := self._argument(other)) is not None:
            argument.other_type += 1
        found = read_error_message(message)
        for each in found:
            name = self._known(each.parameter, arguments) or _named_by_value(each, arguments, message)
            if not name or (each.where in ("header", "cookie") and name not in self._arguments):
                continue
            argument = self._argument(name) if each.problem != "unknown" or name in arguments else None
            if argument is not None:
                argument.take(each)
        if not found and status in _OF_ARGUMENTS[:3]:  # something was wrong: perhaps what was left out
            for name, argument in self._arguments.items():
                argument.refused_without += name not in arguments

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, always of an object.

        An argument is required if every accepted call had it, and its absence was refused or it is none that services
        usually make optional (``limit``, ``page``, ``lang``). One that was only ever called unknown is left out.
        """
        properties: dict[str, Any] = {}
        required: list[str] = []
        for name, argument in self._arguments.items():
            seen = argument.values.count
            if not seen and (argument.unknown or not (argument.missing or argument.claims)):
                continue
            properties[name] = self._property(argument)
            if seen == self.accepted_count and (argument.missing or self._probably_required(name, argument)):
                required.append(name)
        made = {"type": "object", "properties": properties}
        return {**made, "required": required} if required else made

    def to_json(self) -> dict[str, Any]:
        """The evidence as plain JSON, for :meth:`from_json`."""
        arguments = {name: argument.to_json() for name, argument in self._arguments.items()}
        counts = {"accepted": self.accepted_count, "refused": self.refused_count}
        return json.loads(json.dumps({"version": VERSION, **counts, "arguments": arguments}))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, stored: Any) -> ArgumentEvidence:
        """The evidence that :meth:`to_json` wrote.

        Raises:
            UsageError: ``stored`` is nothing that :meth:`to_json` wrote.
        """
        made = cls()
        try:
            if stored["version"] != VERSION:
                raise ValueError(f"version {stored['version']!r} instead of {VERSION}")
            made.accepted_count, made.refused_count = int(stored["accepted"]), int(stored["refused"])
            for name, fields in list(stored["arguments"].items())[:MAX_ARGUMENTS]:
                made._arguments[str(name)] = _load(str(name), fields)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"stored evidence of arguments is damaged ({problem}): delete it and probe the tool again"
            ) from None
        return made

    def _argument(self, name: str) -> _Argument | None:
        if name not in self._arguments:
            if len(self._arguments) >= MAX_ARGUMENTS or not 0 < len(name) <= 100:
                return None
            self._arguments[name] = _Argument(name)
        return self._arguments[name]

    def _known(self, named: str, arguments: Mapping[str, Any]) -> str:
        """The argument that a refusal names: ``City`` is our ``city``; a name of an inner field is no argument."""
        if not named:
            return ""
        for name in (*arguments, *self._arguments):
            if named == name:
                return name
        for name in (*arguments, *self._arguments):
            if _folded(named) == _folded(name):
                return name
        return "" if "." in named else named

    def _probably_required(self, name: str, argument: _Argument) -> bool:
        if not self.accepted_count:
            return False
        return bool(argument.refused_without) or _USUALLY_OPTIONAL.isdisjoint(words(name))

    def _property(self, argument: _Argument) -> dict[str, Any]:
        seen = argument.values.count
        made = argument.values.schema()
        for keyword in (RANGE, "enum", "description"):  # of the values that we chose ourselves
            made.pop(keyword, None)
        agreed = _agreed(argument.claims)
        made = _with_type(made, agreed, argument)
        if "type" in made and agreed.keys().isdisjoint(("type", *_BOUNDS)) and not _type_is_shown(argument):
            made[OBSERVED] = True
        if "enum" in agreed:
            made = _with_enum(made, agreed["enum"], argument)
        if "format" in agreed and made.get("type", "string") == "string":
            made["format"] = agreed["format"]
        for keyword in _BOUNDS:
            if keyword in agreed and _all_fit({keyword: agreed[keyword]}, argument.examples):
                made[keyword] = agreed[keyword]
        if argument.examples:
            made["examples"] = list(argument.examples)
        evidence = {"seen": seen, "of": self.accepted_count}
        refused = {
            "refused_without": argument.missing or argument.refused_without,
            "complaints": sum(argument.claims.values()),
        }
        return {**made, EVIDENCE: {**evidence, **{key: count for key, count in refused.items() if count}}}


def _type_is_shown(argument: _Argument) -> bool:
    """Text may be from the first: a number given in its place becomes text, so next to nothing is refused."""
    return bool(argument.other_type) or argument.values.schema().get("type") == "string" or len(argument.examples) > 1


def _other_type(accepted: Mapping[str, Any] | None, refused: Mapping[str, Any]) -> str:
    if accepted is None or accepted.keys() != refused.keys():
        return ""
    names = [name for name, value in refused.items() if value != accepted[name]]
    if len(names) != 1:
        return ""
    before, after = (_kind(call[names[0]]) for call in (accepted, refused))
    return names[0] if before != after else ""


def _kind(value: Any) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if numeric else type(value).__name__


def _keep_example(examples: list[Any], value: Any) -> None:
    if value is None or value == NONSENSE or value in examples or len(examples) >= MAX_EXAMPLES:
        return
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return  # no JSON: not finite, a number of thousands of digits, or without end
    if len(text) <= MAX_EXAMPLE_LENGTH and not looks_secret(text):
        examples.append(value)


def _named_by_value(detail: ErrorDetail, arguments: Mapping[str, Any], body: Any) -> str:
    """The argument whose value an error message repeats, when it names none: ``'x' is not one of ['a', 'b']``."""
    if detail.parameter or not detail.expected:
        return ""
    if len(arguments) == 1:
        return next(iter(arguments))
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    given = [
        name
        for name, value in arguments.items()
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 10**18)
        if 0 < len(str(value)) <= 100
        if re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", text[:4000])
    ]
    return given[0] if len(given) == 1 else ""


def _agreed(claims: Mapping[str, int]) -> dict[str, Any]:
    made: dict[str, tuple[int, Any]] = {}
    for text, count in claims.items():
        for keyword, value in json.loads(text).items():
            if keyword not in made or count > made[keyword][0]:
                made[keyword] = (count, value)
    return {keyword: value for keyword, (_, value) in made.items()}


def _with_type(made: dict[str, Any], agreed: Mapping[str, Any], argument: _Argument) -> dict[str, Any]:
    """The type that the service named, if the accepted values can be meant so: ``"5"`` is an integer in a query."""
    claimed = agreed.get("type")
    if not claimed and any(key in agreed for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")):
        claimed = "number" if "type" not in made else None
    if claimed is None or made.get("type") == claimed:
        return made
    kept = {key: value for key, value in made.items() if key == EVIDENCE}
    if "type" not in made:
        return {"type": claimed, **kept}
    if claimed == "number" and made["type"] == "integer":
        return {"type": "number", **kept}
    numeric = claimed in ("integer", "number") and made["type"] == "string"
    if numeric and argument.examples and all(_reads_as(claimed, value) for value in argument.examples):
        return {"type": claimed, **kept}
    return made


def _reads_as(kind: str, value: Any) -> bool:
    pattern = r"-?\d{1,18}" if kind == "integer" else r"-?\d{1,18}(\.\d{1,18})?"
    return isinstance(value, str) and re.fullmatch(pattern, value.strip()) is not None


def _with_enum(made: dict[str, Any], members: list[Any], argument: _Argument) -> dict[str, Any]:
    """The values that the service named, in the type of the accepted ones; not if an accepted one is not among them."""
    kind = made.get("type")
    if kind in ("integer", "number") and all(isinstance(m, str) and _reads_as(kind, m) for m in members):
        members = [int(m) if kind == "integer" else float(m) for m in members]
    if not all(value in members for value in argument.examples):
        return made
    if kind is None and all(isinstance(member, str) for member in members):
        made = {"type": "string", **made}
    return {**made, "enum": members}


def _all_fit(bound: Mapping[str, Any], values: list[Any]) -> bool:
    (keyword, limit), *_ = bound.items()
    sizes: list[float] = []
    for value in values:
        if keyword.endswith(("Length", "Items")):
            sizes += [len(value)] if isinstance(value, str if keyword.endswith("Length") else list) else []
        elif isinstance(value, int | float):
            sizes.append(value)
    if keyword.startswith("min"):
        return all(size >= limit for size in sizes)
    if keyword.startswith("max"):
        return all(size <= limit for size in sizes)
    return all(size > limit for size in sizes) if keyword == "exclusiveMinimum" else all(size < limit for size in sizes)


def _is_uninformative(status: int | str | None) -> bool:
    number = int(status) if isinstance(status, str) and re.fullmatch(r"[0-9]{3}", status) else status
    return isinstance(number, int) and (number in _UNINFORMATIVE or number >= 500)


def _folded(name: str) -> str:
    return "".join(words(name))


def _load(name: str, fields: Mapping[str, Any]) -> _Argument:
    argument = _Argument(name)
    argument.values = Shape.from_json(fields["values"])
    argument.examples = list(fields["examples"])[:MAX_EXAMPLES]
    for counter in ("missing", "refused_without", "unknown", "other_type"):
        setattr(argument, counter, int(fields.get(counter, 0)))
    argument.claims = {
        str(text): int(count) for text, count in fields["said"].items() if isinstance(json.loads(text), dict)
    }
    argument.where = str(fields["where"])
    return argument
