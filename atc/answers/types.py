"""The type of an answer, and validation of values against it.

A type of Python is pydantic's to validate, in its JSON mode: programs hand over JSON values, and bytes. What loses
nothing is coerced: ``"3"`` is an ``int``, ``3.5`` is none. A JSON Schema coerces nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from atc.answers.stub import AnswerStub, answer_stub
from atc.calls.json_values import to_json_value
from atc.facts import Misfit, Mismatch, Observed
from atc.packing import holds_bytes
from atc.programs.attribution.responses import observed
from atc.schemas.validate import problems, resolve, types_of
from atc.tools.protocol import JsonSchema

MAX_PROBLEMS = 3
"""Ways in which a value does not fit that are reported."""
MAX_MEMBERS = 100
"""Members of a union that are looked at."""
MAX_WORDS = 200
"""Characters of a validator's message."""
MAX_VALUE = 150
"""Characters of a value that does not fit."""


@dataclass(frozen=True)
class Fitted:
    """A value that fits: ``value`` as the type has it, and ``plain``, its JSON values and bytes."""

    value: Any
    plain: Any


class AnswerType:
    """The type of an answer. Open one with :func:`atc.answers.opening.open_answer`.

    Args:
        schema: its JSON Schema.
        adapter: pydantic's validator; without one values are held to the schema, and stay as they are.
        opened_by: the word or name that opens it again; ``None`` where there is none.
        predicted: whether the schema says all that is taken, so that a program can be refused before it runs.
    """

    def __init__(
        self,
        schema: JsonSchema,
        adapter: TypeAdapter[Any] | None = None,
        opened_by: str | None = None,
        predicted: bool = True,
    ) -> None:
        self.schema, self.opened_by, self.predicted = schema, opened_by, predicted
        self._adapter = adapter

    @property
    def text(self) -> str:
        """The type as an annotation, in the words of :attr:`stub`: ``list[City]``."""
        return self.stub.annotation

    @cached_property
    def stub(self) -> AnswerStub:
        """The type as a model is shown it; bounded."""
        return answer_stub(self.schema)

    @cached_property
    def names_none(self) -> bool:
        """Whether the type itself names ``None`` (``str | None``): one that takes anything says nothing about it."""
        todo: list[Any] = [self.schema]
        for _ in range(MAX_MEMBERS):
            if not todo:
                break
            part = resolve(self.schema, todo.pop())
            if "null" in types_of(part) or None in part.get("enum", ()) or part.get("const", "") is None:
                return True
            todo += [each for key in ("anyOf", "oneOf") for each in part.get(key, ())]
        return False

    def record(self) -> dict[str, Any]:
        """Its record in a trace, for a resume: see :func:`atc.answers.opening.reopened`."""
        return {"type": self.text, "schema": self.schema, "opened_by": self.opened_by}

    def same_as(self, other: AnswerType) -> bool:
        """Whether both say the same of a value, as far as a JSON Schema can say it."""
        return self.schema == other.schema

    def fit(self, value: Any) -> Fitted | Misfit:
        """Hold a value to the type.

        Args:
            value: JSON values and bytes.
        """
        if self._adapter is None:
            found = problems(self.schema, value)
            wrong = tuple(Mismatch(path=p.path, what=p.message[:MAX_WORDS]) for p in found[:MAX_PROBLEMS])
            return self._misfit(value, wrong) if wrong else Fitted(value, value)
        try:
            if holds_bytes(value):
                made = self._adapter.validate_python(value)
            else:
                made = self._adapter.validate_json(pydantic_core.to_json(value))
        except ValidationError as error:
            return self._misfit(value, tuple(_mismatches(error, value)))
        except Exception as error:  # a validator of the user's own raised something else
            return self._misfit(value, (Mismatch(path=(), what=f"{type(error).__name__}: {error}"[:MAX_WORDS]),))
        try:
            return Fitted(made, self._plain(made, value))
        except ValueError as error:  # `"nan"` is a float to pydantic
            return self._misfit(value, (Mismatch(path=(), what=f"it has no JSON form: {error}"[:MAX_WORDS]),))

    def _plain(self, made: Any, value: Any) -> Any:
        """The JSON form of a typed value: as pydantic writes it where that is read back, else as it came.

        Raises:
            ValueError: it holds what JSON has not.
        """
        if holds_bytes(value):
            return value
        assert self._adapter is not None
        try:
            written = self._adapter.dump_python(made, mode="json", by_alias=True, round_trip=True, warnings=False)
            self._adapter.validate_json(pydantic_core.to_json(written))
        except Exception:
            return value  # a serializer of the user's own, or bytes that are no text: what came was valid
        return to_json_value(written)

    def _misfit(self, value: Any, problems: tuple[Mismatch, ...]) -> Misfit:
        return Misfit(expected=self.text, found=observed(value, room=MAX_VALUE), problems=problems)


def _mismatches(error: ValidationError, value: Any) -> Iterator[Mismatch]:
    """The first ways in which a value does not fit, at places of the value."""
    for each in error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        path, here = [], value
        for step in each["loc"]:  # among the steps are the names of a union's members
            held = step in here if isinstance(here, dict) else isinstance(here, list) and step in range(len(here))
            if held:
                here = here[step]
            elif each["type"] != "missing" or step is not each["loc"][-1]:
                continue
            path.append(step)
        found = Observed(type="missing") if each["type"] == "missing" else observed(here, room=MAX_VALUE)
        yield Mismatch(path=tuple(path), what=each["msg"][:MAX_WORDS], found=found)
