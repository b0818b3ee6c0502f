"""Protocol documenting (ATC §4.1): evidence → d = ((q, C), s, t), a protocol document like any other.

:class:`Store` keeps a document for each tool in a folder, and beside them what is known, to go on from.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from atc._host.files import write_whole
from atc.errors import UsageError
from atc.probing.error_messages import read_error_message
from atc.probing.record import Record, Refusal
from atc.result import Effect
from atc.schemas.identifiers import THINGS, is_identifier
from atc.schemas.infer.text import may_be_name
from atc.schemas.observed import says_nothing
from atc.schemas.protocol import Example, Protocol, Provenance, Status
from atc.schemas.types import EVIDENCE, OBSERVED
from atc.schemas.validate import types_of
from atc.tools.documents import DRIFTED, drifted_tools, dump_protocols
from atc.tools.tool import Toolset


def missing_in(refusal: Refusal) -> list[str]:
    """The arguments that a refusal says are missing."""
    return [c.parameter for c in read_error_message(refusal.service_message) if c.problem == "missing" and c.parameter]


def merged_arguments(protocol: Protocol, record: Record) -> dict[str, Any]:
    """Merge the declared arguments with evidence from accepted and refused calls.

    Declared types stand. Declared as required stays so; added is what the service itself demanded, and where the source
    declares no arguments at all, whatever evidence shows to be required. No argument beyond those declared is made up.
    """
    declared, learnt = protocol.parameters, record.arguments.schema()
    properties_declared, observed = declared.get("properties", {}), learnt.get("properties", {})
    properties: dict[str, Any] = {}
    for name in properties_declared or observed:
        known = properties_declared.get(name) if isinstance(properties_declared.get(name), dict) else {}
        typed = bool(known.get("type") or "$ref" in known or "enum" in known or "anyOf" in known)
        properties[name] = {**observed.get(name, {}), **known} if typed else {**known, **observed.get(name, {})}
        if typed or ("type" in properties[name] and properties[name].get(OBSERVED) is not True):
            properties[name].pop(OBSERVED, None)
    demanded = {refused for refusal in record.refusals for refused in missing_in(refusal)}
    learnt_required = [name for name in learnt.get("required", ()) if not properties_declared or name in demanded]
    required = [name for name in properties if name in protocol.required or name in learnt_required]
    made = {key: value for key, value in declared.items() if key not in ("properties", "required")}
    if not properties_declared and properties:
        made["additionalProperties"] = False  # what is known is all that a program should use
    made |= {"type": "object", "properties": properties}
    return made | ({"required": required} if required else {})


def enforced(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a document states them: a type that was only observed is no rule, and stays as a remark."""
    properties = {}
    for name, schema in arguments["properties"].items():
        kept = schema
        if isinstance(schema, dict) and schema.get(OBSERVED) is True:
            kept = {**{key: value for key, value in schema.items() if key != "type"}, OBSERVED: schema.get("type")}
        properties[name] = kept
    return {**arguments, "properties": properties}


FROM_RECORDING = "from the recording"
"""Why a tool is documented that was not called."""

EXAMPLES = 2
_LABEL = re.compile(r"[A-Z]+ /\S*")
MAX_ITEMS, MAX_TEXT = 2, 200
"""Bounds of lists and texts in an example's response."""
_NAMING = THINGS | {"name", "title"}
_WORDS = {"404": "nothing has this id or name", "422": "the arguments are wrong", "400": "the arguments are wrong"}


def protocol_of(declared: Protocol, record: Record) -> Protocol:
    """The protocol of a tool: what its source declares and what its calls showed.

    A declared description and declared types stand; probing adds what is missing, with its evidence.

    Args:
        declared: from the importer.
        record: of its probing.
    """
    returns = record.shape.schema() if record.shape.count else None
    examples = () if any(example.program for example in declared.examples) else _examples(record)
    return declared.model_copy(
        update={
            "description": declared.description if described(declared) else record.description or declared.description,
            "parameters": enforced(merged_arguments(declared, record)),
            "returns": returns if returns is not None and _is_open(declared) else declared.returns,
            "statuses": _statuses(declared, record),
            "examples": declared.examples + examples,
            "provenance": Provenance.INFERRED,
        }
    )


def described(declared: Protocol) -> bool:
    """Whether the source describes what the tool does, and not only its method and path."""
    return bool(declared.description) and not _LABEL.fullmatch(declared.description)


def _is_open(declared: Protocol) -> bool:
    """Whether a source does not say what a tool returns, or a recording has empty answers alone."""
    returns = declared.returns or {}
    recorded = EVIDENCE in returns and declared.provenance is Provenance.INFERRED
    return says_nothing(returns) or (recorded and _saw_nothing(returns, declared))


def is_recorded(declared: Protocol) -> bool:
    """Whether a tool came with what was seen of its answers, as one out of a recording does: it need not be called.

    A read of which only empty answers were seen is none of these: a call may show more.
    """
    returns = declared.returns
    if declared.provenance is not Provenance.INFERRED or returns is None:
        return False
    if returns == {"type": "null"}:
        return declared.effect is not Effect.READ
    return EVIDENCE in returns and (declared.effect is not Effect.READ or not _saw_nothing(returns, declared))


def _saw_nothing(returns: Mapping[str, Any], declared: Protocol) -> bool:
    """A thing whose lists happen to be empty is none: a field of it names it, and is no argument."""
    kinds = types_of(dict(returns)) - {"null"}
    if kinds == {"array"}:
        return _saw_nothing(returns["items"], declared) if isinstance(returns.get("items"), Mapping) else True
    if kinds != {"object"}:
        return not kinds
    fields = {name: each for name, each in returns.get("properties", {}).items() if isinstance(each, Mapping)}
    lists = [each for each in fields.values() if "array" in types_of(dict(each))]
    if lists:
        given = declared.parameters.get("properties", {})
        named = any(is_identifier(name, _NAMING) and name not in given for name in fields)
        return not named and all(_saw_nothing(each, declared) for each in lists)
    return "additionalProperties" not in returns and all(_saw_nothing(each, declared) for each in fields.values())


def take_recorded(tools: Toolset, records: Mapping[str, Record]) -> None:
    """Take the tools that a recording documents for documented, without a call; not those that only an earlier one
    did."""
    for name, tool in tools.items():
        record = records[name]
        if record.state != "documented" and is_recorded(tool.protocol):
            record.state, record.reason = "documented", FROM_RECORDING
        elif record.reason == FROM_RECORDING and not is_recorded(tool.protocol):
            record.state, record.reason = "waiting", ""


def _statuses(declared: Protocol, record: Record) -> tuple[Status, ...]:
    known = {str(status.code) for status in declared.statuses} | {"ok"}
    seen = [code for code in record.statuses if code not in known]
    return declared.statuses + tuple(
        Status(
            code=int(code) if code.isdecimal() else code,
            description=f"{_WORDS.get(code, 'refused')} (seen {record.statuses[code]} times)",
        )
        for code in seen
    )


def _examples(record: Record) -> tuple[Example, ...]:
    shown = record.demonstration
    ordered = sorted(record.instances, key=lambda each: shown is None or each.arguments != shown.arguments)
    return tuple(
        Example(
            arguments=instance.arguments,
            response=shortened(instance.response),
            description=shown.question if shown and instance.arguments == shown.arguments else "",
            program=shown.program if shown and instance.arguments == shown.arguments else "",
        )
        for instance in ordered[:EXAMPLES]
    )


def shortened(value: Any) -> Any:
    """An example of a response that a person can read: short lists, short texts, keys that may be names."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in list(value.items())[:60] if may_be_name(key)}
    if isinstance(value, list):
        return [shortened(item) for item in value[:MAX_ITEMS]]
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] + "…"
    return value


STATE = ".probe"
"""The folder of records inside the folder of documents; importers pass over it."""


class Store:
    """The folder, or none: then nothing is kept.

    Args:
        folder: made if need be.
        must_exist: it is read only.

    Raises:
        UsageError: it cannot be written, or is not there and must be.
    """

    def __init__(self, folder: str | Path | None, *, must_exist: bool = False) -> None:
        self._folder = Path(folder) if folder else None
        self._before: dict[str, bytes | None] = {}
        if must_exist and (self._folder is None or not self._folder.is_dir()):
            raise UsageError(f"there is no folder {folder}: give one that `atc probe -o` wrote")
        if self._folder is not None and not must_exist:
            try:
                (self._folder / STATE).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"the folder {folder} cannot be made: {error.strerror}") from None

    def load(self, tools: Toolset) -> dict[str, Record]:
        """A record for each tool: as it was left, or a new one.

        Raises:
            UsageError: a record is damaged; its file is named.
        """
        return {name: self._read(name) or Record(name) for name in tools}

    def load_all(self) -> dict[str, Record]:
        """All records that are there.

        Raises:
            UsageError: a record is damaged; its file is named.
        """
        if self._folder is None:
            return {}
        names = sorted(file.stem for file in (self._folder / STATE).glob("*.json") if file.name != DRIFTED.name)
        return {name: record for name in names if (record := self._read(name)) is not None}

    def save(self, record: Record) -> None:
        """Keep a record; a crash leaves the old one or the new one, whole."""
        if self._folder is None:
            return
        file = self._folder / STATE / f"{record.name}.json"
        write_whole(file, json.dumps(record.to_json(), ensure_ascii=False), 0o666)

    def document(self, declared: Protocol, record: Record) -> None:
        """Write the tool's document."""
        if self._folder is not None:
            if record.name not in self._before:
                self._before[record.name] = self._written(record.name)
            dump_protocols([protocol_of(declared, record)], self._folder)
            if record.name in (drifted := drifted_tools(self._folder)):
                self.note_drifted(drifted - {record.name})

    def _written(self, name: str) -> bytes | None:
        file = self._folder / f"{name}.json" if self._folder is not None else None
        return file.read_bytes() if file is not None and file.is_file() else None

    @property
    def replaced(self) -> int:
        """How many documents say something else now than those that were there."""
        return sum(old is not None and old != self._written(name) for name, old in self._before.items())

    def keep(self, tools: Toolset, records: Mapping[str, Record]) -> None:
        """Keep all records, and write the documents of the tools that are documented."""
        for record in records.values():
            self.save(record)
            if record.state == "documented":
                self.document(tools[record.name].protocol, record)

    def note_drifted(self, names: Iterable[str]) -> None:
        """Keep which tools answer otherwise than their documents say, for those who load them; a folder that cannot be
        written keeps none.
        """
        if self._folder is None:
            return
        file = self._folder / DRIFTED
        with contextlib.suppress(OSError):
            write_whole(file, json.dumps(sorted(names)), 0o666)

    def _read(self, name: str) -> Record | None:
        if self._folder is None:
            return None
        file = self._folder / STATE / f"{name}.json"
        try:
            return Record.from_json(json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{file} is no record of this version ({error}): remove it to probe again") from None
