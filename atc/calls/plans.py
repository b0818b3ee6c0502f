"""The plan of a dry run, as its journal keeps it: which calls the program would make, in order, with what arguments.

A plan is what one yes is for (:mod:`atc.calls.applying`). What a person was shown has its credentials masked and may be
cut, so it is no basis for equality: of each argument the digest of its canonical form is kept. A part of an argument
that a planned call is to answer has no digest. The plan says which part of which answer it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atc._records.packing import pack, unpack
from atc._records.records import PlannedCall
from atc.calls.entry import CallKey
from atc.calls.forms import Form, read_form
from atc.calls.journal_records import Record, source_of
from atc.calls.json_values import canonical
from atc.calls.parked import Decision, is_time
from atc.result import Effect


def digest(value: Any) -> str:
    """Return what two equal values have in common; empty for one without a canonical form, which equals nothing."""
    try:
        return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
    except (ValueError, TypeError):
        return ""


@dataclass(frozen=True)
class KeptCall:
    """A call of a plan.

    Attributes:
        number: of the call in the dry run.
        key: of the call; its digest is of the known arguments alone.
        parts: of the tool as it was (:func:`atc.calls.parked.parts_of`).
        effect: as it was. A read is planned only where its arguments rest on a planned call.
        arguments: the digest of each known argument, by its name.
        unknown: by the name of each other argument, how it is made of what planned calls will answer.
        shown: what a person is shown, credentials masked.
    """

    number: int
    key: CallKey
    parts: Mapping[str, str]
    effect: Effect
    arguments: Mapping[str, str]
    unknown: Mapping[str, Form]
    shown: PlannedCall

    def record(self) -> Record:
        """Return it as JSON."""
        source = {} if self.key.source is None else {"source": list(self.key.source)}
        return {
            "number": self.number,
            "tool": self.key.tool,
            "key": self.key.digest,
            **source,
            "parts": dict(self.parts),
            "effect": self.effect.value,
            "arguments": dict(self.arguments),
            "unknown": pack(dict(self.unknown)),
            "shown": pack(self.shown.model_dump(mode="json")),
        }


@dataclass(frozen=True)
class Plan:
    """The calls that the program of a dry run would make.

    Attributes:
        program: the digest of its text. ``inputs``: of the values that it was given.
        at: when it was planned, in seconds since 1970.
        calls: in order.
    """

    program: str
    inputs: str
    at: float
    calls: tuple[KeptCall, ...]

    @property
    def last(self) -> int:
        """Return the number of the last call."""
        return max(call.number for call in self.calls)

    @property
    def writes(self) -> tuple[KeptCall, ...]:
        """Return the calls with effects."""
        return tuple(call for call in self.calls if call.effect is not Effect.READ)

    @property
    def digest(self) -> str:
        """Return what names exactly this plan; empty where it has no canonical form: such a one is not kept."""
        return digest(self.record())

    def record(self) -> Record:
        """Return it as the journal keeps it."""
        calls = [call.record() for call in self.calls]
        return {"plan": self.program, "calls": calls, "inputs": self.inputs, "at": self.at}


def statement(run: str, plan: Plan) -> str:
    """Return what an approver signs: the yes to one plan of one run, exactly as it was shown."""
    return f"atc plan 2\n{run}\n{plan.digest}\nyes"


def apply_record(last: int, yes: Decision, reads_until: int) -> Record:
    """Return the journal's record that a plan is applied from now on.

    Args:
        last: number of the last call of the journal or the plan.
        yes: who applies it, and when.
        reads_until: no read up to this number answers a call any more.
    """
    signed = {"signature": yes.signature} if yes.signature else {}
    return {"apply": last, "by": yes.by, "at": yes.at, "reads_until": reads_until, **signed}


def read_apply(record: Record) -> tuple[Decision, int]:
    """Return the yes to a plan, and up to which number no read answers a call any more.

    Raises:
        ValueError, KeyError: the record is none.
    """
    by, at, until, signature = record["by"], record["at"], record["reads_until"], record.get("signature", "")
    numbers = type(record["apply"]) is int and type(until) is int and is_time(at)
    if not numbers or not (isinstance(by, str) and isinstance(signature, str)):
        raise ValueError("not the yes to a plan")
    return Decision(True, by, at, signature), until


def read_plan(record: Record) -> Plan:
    """Return the plan of a journal's record.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the record is none.
    """
    program, inputs, at = record["plan"], record["inputs"], record["at"]
    if not (isinstance(program, str) and isinstance(inputs, str) and is_time(at)):
        raise ValueError("not a plan")
    calls = tuple(map(_read_call, record["calls"]))
    numbers = [call.number for call in calls]
    if not numbers or numbers != sorted({*numbers}) or numbers[0] < 1:
        raise ValueError("not the calls of a plan, in order")
    plan = Plan(program, inputs, at, calls)
    if not plan.digest:
        raise ValueError("no plan that could be signed")
    return plan


def _read_call(record: Record) -> KeptCall:
    number, arguments = record["number"], record["arguments"]
    key = CallKey(record["tool"], record["key"], source_of(record.get("source")))
    texts = (key.tool, key.digest, *arguments.values(), *record["parts"].values())
    if type(number) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError("not a planned call")
    unknown = {name: _read_form(form) for name, form in unpack(record["unknown"]).items()}
    shown = PlannedCall.model_validate_json(json.dumps(unpack(record["shown"])))
    effect = Effect(record["effect"])
    if not unknown.keys().isdisjoint(arguments):
        raise ValueError("an argument is either known or not")
    if (shown.index, shown.effect) != (number, effect.value):
        raise ValueError("it shows another call than the planned one")
    return KeptCall(number, key, record["parts"], effect, arguments, unknown, shown)


def _read_form(raw: Any) -> Form:
    form = read_form(raw, lambda number: number)
    if form is None:
        raise ValueError("not how an argument is made")
    return form
