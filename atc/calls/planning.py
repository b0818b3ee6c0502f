"""What a dry run does with a call that is not a read: it passes the gates, and is planned instead of made.

A planned call is neither in the journal nor handed to its tool, and nobody is asked to approve it. What it would answer
is not known. A later call that takes a part of that is planned too, also where it is a read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atc.calls.record import CallRecord
from atc.dry_run_facts import Feed
from atc.errors import CallRefused
from atc.result import Call, Effect
from atc.tools.protocol import Protocol, original_arguments

_ASKS_ALWAYS = "it depends on what the check warned about: a real run asks before it makes this call"
_NOT_CHECKED = "its arguments can be checked only when all of them are known"


def refuse_effect(effect: Effect, *, dry_run: bool) -> None:
    """Stop what would hand a call with effects to its tool in a dry run. No gate lets one come that far.

    Raises:
        AssertionError: it is one. The run breaks off.
    """
    if dry_run and effect is not Effect.READ:
        raise AssertionError("a dry run hands no call with effects to its tool")


def plan(record: CallRecord, warnings: Sequence[str]) -> None:
    """Record a call that has passed all gates but the approval as planned.

    Args:
        record: of the call.
        warnings: what the check warned about and it depends on.
    """
    record.status = "planned"
    if warnings:
        record.notes.append(_ASKS_ALWAYS)


def plan_unknown(record: CallRecord, protocol: Protocol, calls: Collection[Call], *, dry_run: bool) -> None:
    """Record a call as planned some of whose arguments rest on planned calls.

    Args:
        record: of the call; ``unknown`` says which arguments, by the program's own claim.
        protocol: of its tool.
        calls: those of the run that have ended.

    Raises:
        CallRefused: this is no dry run, or what it rests on was not planned.
    """
    planned = {call.index: call.tool for call in calls if call.status == "planned"}
    if not dry_run or any(number not in planned for places in record.unknown.values() for number, _ in places):
        raise CallRefused("its arguments hold values of calls that were not planned", status="invalid_arguments")
    record.arguments = original_arguments(protocol, record.arguments)
    for name, places in original_arguments(protocol, dict(record.unknown)).items():
        record.awaits += [
            Feed(argument=name, kind="planned", call=number, tool=planned[number], path=path) for number, path in places
        ]
    record.status = "planned"
    record.notes.append(_NOT_CHECKED)
