"""The part of a prompt that says which type the answer shall have."""

from __future__ import annotations

from atc.answers.types import AnswerType
from atc.prompting import fenced, prompt


def type_note(answer: AnswerType | None, what: str = "`answer`") -> str:
    """The text behind the task; empty where no type was asked for.

    Args:
        answer: the type.
        what: the place of the answer, in the words of the strategy's prompt.
    """
    if answer is None:
        return ""
    stub = answer.stub
    return prompt(
        "answer_type", what=what, type=fenced(stub.annotation), about=fenced(stub.about), classes=fenced(stub.classes)
    )
