"""The second tier of repair, measured: corrupted calls that no rule repairs, put to a model by the broker itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal
from atc.models import open_model
from atc.models.base import Message, Model, Reply
from atc.result import Effect
from atc.settings import Settings
from atc.strategies.argument_repair import ModelRepairer
from atc.strategies.asking import ask
from atc.strategies.context import RunContext
from atc.tools.protocol import JsonSchema, Protocol
from atc.tools.tool import Tool, Toolset

SAMPLE = 40
_NAME = "tool"


@dataclass(frozen=True)
class Question:
    """A corrupted call that rules refuse.

    Attributes:
        meant: the arguments to restore; ``None`` where a refusal is right.
    """

    kind: str
    schema: JsonSchema
    arguments: dict[str, Any]
    meant: dict[str, Any] | None


@dataclass
class _Asking:
    """As much of a run's context as repair by the model needs."""

    model: Model
    settings: Settings

    async def ask(self, purpose: str, messages: Sequence[Message], **options: Any) -> Reply:
        given = {"temperature": 0.0, "seed": self.settings.seed} | options
        return await ask(self.model, lambda kind, data: None, purpose, messages, **given)


class _Recorded:
    """A transport that answers nothing and keeps what it was asked."""

    def __init__(self) -> None:
        self.sent: dict[str, Any] | None = None

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self.sent = arguments
        return {}

    def opened(self) -> None:
        return None


def sample(questions: Sequence[Question], most: int = SAMPLE) -> list[Question]:
    """Questions of all kinds in turn, each kind's drawn by hash."""
    kinds: dict[str, list[Question]] = {}
    for question in sorted(questions, key=_digest):
        kinds.setdefault(question.kind, []).append(question)
    turns = [(place, kind) for kind, of_kind in kinds.items() for place in range(len(of_kind))]
    return [kinds[kind][place] for place, kind in sorted(turns)[:most]]


def _digest(question: Question) -> bytes:
    return hashlib.sha256(json.dumps([question.kind, question.arguments], sort_keys=True).encode()).digest()


def ask_model(
    questions: Sequence[Question],
    spec: str | Model,
    effect: Effect,
    is_same: Callable[[Any, Any], bool],
) -> dict[str, Counter[str]]:
    """What the model makes of them, by kind: ``restored``, ``refused`` or ``wrong``.

    Args:
        spec: as ``atc run --model`` takes it, or a model.
        effect: that the tools are said to have.
        is_same: whether two values are the same JSON.

    Raises:
        ModelUnavailable: there is no such model.
    """
    return asyncio.run(_ask(questions, spec, effect, is_same))


async def _ask(
    questions: Sequence[Question], spec: str | Model, effect: Effect, is_same: Callable[[Any, Any], bool]
) -> dict[str, Counter[str]]:
    model = open_model(spec) if isinstance(spec, str) else spec
    asking = cast(RunContext, _Asking(model, Settings.load()))
    found: dict[str, Counter[str]] = {}
    try:
        for question in questions:
            transport = _Recorded()
            protocol = Protocol(name=_NAME, parameters=question.schema, effect=effect)
            broker = Broker(
                Toolset([Tool(protocol, transport)]),
                Journal(),
                lambda kind, data: None,
                CallPolicy(repairs=1),
                Approval("always"),
            )
            broker.repairs.repairer = ModelRepairer(asking)
            broker.begin_program()
            await broker.call(CallRequest(1, _NAME, question.arguments, 1))
            if transport.sent is None:
                outcome = "refused"
            else:
                outcome = "restored" if is_same(transport.sent, question.meant) else "wrong"
            found.setdefault(question.kind, Counter())[outcome] += 1
    finally:
        await model.aclose()
    return found
