"""Re-probing: the programs that documented a tool run again, and their answers are compared with the document.

Inferred schemas carry counts (``x-atc-evidence``), and counts decide what may be said: a field that was in one of three
old answers and is in none of two new ones may just not have been there this time. A schema without counts is taken at
its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from atc._host.redaction import MASK
from atc._host.secret_detection import MASKED
from atc.probing.call_policy import REFUSED_BY_US, Runner
from atc.probing.candidates import literal_call
from atc.probing.record import PASSING, Record
from atc.schemas.infer.shape import Shape
from atc.schemas.protocol import JsonSchema
from atc.schemas.reading import alternatives, loosest
from atc.schemas.types import EVIDENCE
from atc.schemas.validate import types_of

Kind = Literal[
    "added",
    "newly_seen",
    "gone",
    "type_changed",
    "now_nullable",
    "now_optional",
    "now_dictionary",
    "enum_changed",
    "format_changed",
]
Problem = Literal["gone", "masked", "recorded", "unanswered", "unreached"]
BREAKING = frozenset({"gone", "type_changed", "now_dictionary"})
"""Kinds of changes by which programs fail that were written before."""
MAX_CHANGES, MAX_PLACES, MAX_DEPTH = 1000, 20_000, 40
"""Changes that are told, places that are compared, and levels."""
CHANCE = 0.05
"""A field is reported as gone, or new, only if chance would explain it less often than this."""


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        path: where: ``$.cities[].name``; ``{}`` stands for any key of a dictionary.
        kind: what changed. ``newly_seen`` is a field that the old answers may have lacked by chance.
        before: the old type, members or format, as words of JSON Schema or JSON values; ``None`` for what is new.
        after: the new one; ``None`` for what is gone.
        evidence: the counts on both sides, ``{"before": {"seen": 3, "of": 3}, "after": …}``.
    """

    path: str
    kind: Kind
    before: Any = None
    after: Any = None
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def breaks(self) -> bool:
        """Whether programs that read the place as it was are likely to fail."""
        return self.kind in BREAKING


def compare(old: JsonSchema | None, new: JsonSchema | None) -> list[Change]:
    """The differences that the evidence bears out, in the order of the schema.

    Args:
        old, new: schemas of a response; ``None`` says that nothing is known, which is no difference.
    """
    if old is None or new is None:
        return []
    changes: list[Change] = []
    for change in _Comparison(old, new).places("$", old, new, 0):
        changes.append(change)
        if len(changes) >= MAX_CHANGES:
            break
    return changes


class _Comparison:
    def __init__(self, old: JsonSchema, new: JsonSchema) -> None:
        self.old, self.new, self.left = old, new, MAX_PLACES

    def places(self, path: str, old_schema: Any, new_schema: Any, depth: int) -> Iterator[Change]:
        """Compare what two schemas say of one place, and of all below it."""
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            return
        old, new = _flat(self.old, old_schema), _flat(self.new, new_schema)
        before, after = types_of(old), types_of(new)
        counts = {"before": old.get(EVIDENCE), "after": new.get(EVIDENCE)}
        if before and (more := _more_types(before, after)):
            yield Change(path, "type_changed", _words(before), _words(after), {**counts, "new": sorted(more)})
        nulls = "null" in after or bool(_counts(new).get("null"))
        if before and "null" not in before and nulls:
            yield Change(path, "now_nullable", _words(before), _words(after | {"null"}), counts)
        yield from self._values(path, old, new, counts)
        if "object" in before and "object" in after:
            yield from self._objects(path, old, new, depth)
        if isinstance(old.get("items"), dict) and isinstance(new.get("items"), dict):
            yield from self.places(f"{path}[]", old["items"], new["items"], depth + 1)

    def _values(self, path: str, old: JsonSchema, new: JsonSchema, counts: dict[str, Any]) -> Iterator[Change]:
        members, others = (each if isinstance(each := schema.get("enum"), list) else [] for schema in (old, new))
        if members and any(member is not None for member in others if member not in members):
            yield Change(path, "enum_changed", members, others, counts)
        was, now = old.get("format"), new.get("format")
        enough = _counts(new).get("seen", 2) >= 2
        if was and was != now and "string" in types_of(new) and (now or enough) and "enum" not in new:
            yield Change(path, "format_changed", was, now or "text", counts)

    def _objects(self, path: str, old: JsonSchema, new: JsonSchema, depth: int) -> Iterator[Change]:
        fields, others = _properties(old), _properties(new)
        values, other_values = old.get("additionalProperties"), new.get("additionalProperties")
        if isinstance(values, dict):  # the old keys are data: each new one is held against the old values
            new_values = [other_values] if isinstance(other_values, dict) else []
            new_values += [schema for key, schema in others.items() if key not in fields]
            for schema in new_values:
                yield from self.places(f"{path}{{}}", values, schema, depth + 1)
        elif isinstance(other_values, dict) and fields and not others:
            yield Change(path, "now_dictionary", "record", "dictionary", {"after": other_values.get(EVIDENCE)})
            return
        for key, schema in fields.items():
            where = f"{path}.{key}"
            if key in others:
                yield from self._requirement(where, key, old, new)
                yield from self.places(where, schema, others[key], depth + 1)
            elif (change := self._gone(where, key, old, new)) is not None:
                yield change
        if not isinstance(values, dict):
            yield from (self._added(f"{path}.{key}", key, old, new) for key in others if key not in fields)

    def _requirement(self, path: str, key: str, old: JsonSchema, new: JsonSchema) -> Iterator[Change]:
        was, now = key in _required(old), key in _required(new)
        before, after = _counts(_properties(old)[key]), _counts(_properties(new)[key])
        counts = {"before": before, "after": after}
        if was and not now and after.get("seen", 0) < after.get("of", 1):
            yield Change(path, "now_optional", "required", "optional", counts)

    def _gone(self, path: str, key: str, old: JsonSchema, new: JsonSchema) -> Change | None:
        before, objects = _counts(_properties(old)[key]), _objects_of(new)
        kind = _words(types_of(_flat(self.old, _properties(old)[key])))
        counts = {"before": before, "after": {"seen": 0, "of": objects} if objects is not None else None}
        if objects is None:
            return Change(path, "gone", kind, None, counts)
        if key in _required(old) and objects < 2:
            return Change(path, "now_optional", "required", "optional", counts)
        if key in _required(old):
            return Change(path, "gone", kind, None, counts)
        missed_by_chance = (1 - _rate(before)) ** objects
        return Change(path, "gone", kind, None, counts) if missed_by_chance < CHANCE else None

    def _added(self, path: str, key: str, old: JsonSchema, new: JsonSchema) -> Change:
        after, objects = _counts(_properties(new)[key]), _objects_of(old)
        kind = _words(types_of(_flat(self.new, _properties(new)[key])))
        counts = {"before": {"seen": 0, "of": objects} if objects is not None else None, "after": after}
        if objects is not None and (1 - _rate(after)) ** objects >= CHANCE:
            return Change(path, "newly_seen", None, kind, counts)
        return Change(path, "added", None, kind, counts)


def _flat(root: JsonSchema, schema: Any) -> JsonSchema:
    found = [each.schema for each in alternatives(root, schema)]
    if len(found) > 1 and not all(map(types_of, found)):
        return {}  # one of them may be anything
    made = loosest(found)
    if "type" not in made and isinstance(made.get("enum"), list) and all(isinstance(m, str) for m in made["enum"]):
        made = {**made, "type": "string"}
    if "type" not in made and "properties" in made:
        made = {**made, "type": "object"}
    return made


def _more_types(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """Types that are new. A whole number is a number, and null has a kind of change of its own."""
    new = after - before - {"null"}
    return new - {"integer"} if "number" in before else new


def _words(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "anything"


def _properties(schema: JsonSchema) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: JsonSchema) -> set[str]:
    return {name for name in schema.get("required", ()) if isinstance(name, str)}


def _counts(schema: Any) -> dict[str, int]:
    counts = schema.get(EVIDENCE) if isinstance(schema, Mapping) else None
    return {key: n for key, n in counts.items() if type(n) is int} if isinstance(counts, Mapping) else {}


def _objects_of(schema: JsonSchema) -> int | None:
    of = [counts["of"] for field_schema in _properties(schema).values() if "of" in (counts := _counts(field_schema))]
    return max(of, default=_counts(schema).get("seen"))


def _rate(counts: Mapping[str, int]) -> float:
    """In what share of objects a field is, as far as counts tell; without counts, in all."""
    seen, of = counts.get("seen", 1), counts.get("of", 1)
    if not counts:
        return 1.0
    return (seen + 1) / (of + 2)


_MASKS = (MASK, MASKED)
_UNREACHED = PASSING | {"401", *REFUSED_BY_US}
AGAIN = 3
"""Instances of a tool that are run again."""


class Drift(BaseModel):
    """One documented tool, looked at again.

    Attributes:
        changes: of its response, by path.
        problem: why it could not be compared: ``gone`` (it is not there, or may not be called), ``masked`` (all its
            examples hold masked secrets), ``recorded`` (its document is from a recording, which has no example that
            could be called), ``unanswered`` (none of its examples works any more), ``unreached`` (the service did not
            answer, or wants a credential: that says nothing of the tool); ``None`` if it was.
        reason: of the last two, what the service or the program's end said last.
        answered: calls that it answered now.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    tool: str
    changes: tuple[Change, ...] = ()
    problem: Problem | None = None
    reason: str = ""
    answered: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def moved(self) -> bool:
        """Whether more changed than chance explains: a field that is seldom there may be there now."""
        return self._is_lost or any(change.kind != "newly_seen" for change in self.changes)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def breaks(self) -> bool:
        """Whether programs that were written by the document are likely to fail."""
        return self._is_lost or any(change.breaks for change in self.changes)

    @property
    def _is_lost(self) -> bool:
        return self.problem in ("gone", "unanswered")


async def look_again(runner: Runner, record: Record) -> Drift:
    """Run a tool's own examples again and compare.

    A demonstration reads identifiers off other tools' answers, so that a service may forget old ones.
    """
    if record.name not in runner.tools:
        return Drift(tool=record.name, problem="gone")
    now, reason, failures = Shape(), "", set[str]()
    protocol, shown = runner.tools[record.name].protocol, record.demonstration
    whole = [each.arguments for each in record.instances if not any(mask in repr(each.arguments) for mask in _MASKS)]
    whole.sort(key=lambda arguments: shown is None or arguments != shown.arguments)
    for arguments in whole[:AGAIN]:
        shows = shown is not None and arguments == shown.arguments
        program = shown.program if shown and shows else f"answer = {literal_call(protocol, arguments)}\n"
        trial = await runner.run(program, [name for name in runner.tools if name in program])
        for call in trial.calls:
            if call.tool == record.name and call.succeeded:
                now.add(call.value)
            elif not call.succeeded:
                failures.add(str(call.error_status))
                reason = call.error or reason
        reason = reason or trial.problem
    if not whole:
        return Drift(tool=record.name, problem="masked")
    if not now.count:
        problem: Problem = "unreached" if failures and failures <= _UNREACHED else "unanswered"
        return Drift(tool=record.name, problem=problem, reason=reason[:300])
    changes = sorted(compare(record.shape.schema(), now.schema()), key=lambda change: (change.path, change.kind))
    return Drift(tool=record.name, changes=tuple(changes), answered=now.count)
