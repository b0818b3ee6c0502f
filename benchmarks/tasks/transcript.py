"""What was said in one try: what the model was told and answered, and the calls that reached a tool, as one text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from atc.errors import UsageError
from benchmarks.environments.base import Episode, Gold, MadeCall, Task
from benchmarks.tasks.rows import Key, Row

_LONGEST = 2_000  # characters of what one call gave
WHOLE = 200_000
"""Characters of a call's arguments, and of an answer, up to which a record holds them whole."""


@dataclass(frozen=True)
class TryCall:
    """A call that reached a tool. ``arguments``: as JSON text, whole up to :data:`WHOLE`; ``answer``: likewise, cut;
    ``done`` is false where the tool refused it."""

    tool: str
    arguments: str
    answer: str
    done: bool


@dataclass(frozen=True)
class TryRecord:
    """What a judge may see of a try: nothing of the task's own solution, nor whether the try solved it.

    Attributes:
        key: of the row that it belongs to.
        task: what the user asked.
        answer: what the system gave, as text, cut.
        value: the same as JSON text; ``None`` where that is longer than :data:`WHOLE`, is no JSON, or was not kept: in
            a record from before judges were numbered.
    """

    key: Key
    task: str
    calls: tuple[TryCall, ...]
    answer: str
    value: str | None = None

    @classmethod
    def of(cls, task: Task, episode: Episode, row: Row, value: Any) -> TryRecord:
        calls = (TryCall(c.tool, _short(c.arguments, WHOLE), _short(c.answer), c.done) for c in episode.calls)
        try:
            whole = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            whole = None
        return cls(row.key, task.text, tuple(calls), row.answer, whole if whole and len(whole) <= WHOLE else None)


_RECORD = TypeAdapter(TryRecord)


class Transcript:
    """Follows a try at the gateway. A message that was shown before is not written down again.

    Args:
        episode: its calls are noted where they were made.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode, self._called = episode, 0
        self._parts: list[str] = []
        self._shown: set[str] = set()

    def exchange(self, messages: Sequence[Any], reply: dict[str, Any]) -> None:
        """Note what the model was asked and what it answered, after the calls that were made meanwhile."""
        self._calls()
        for message in messages:
            if (key := json.dumps(message, sort_keys=True)) not in self._shown:
                self._shown.add(key)
                self._parts.append(f"## {message.get('role')}\n\n{_text_of(message)}")
        for choice in reply.get("choices", ()):
            message = choice.get("message", {})
            self._shown.add(json.dumps({"role": "assistant", "content": message.get("content")}, sort_keys=True))
            self._shown.add(json.dumps({k: v for k, v in message.items() if v is not None}, sort_keys=True))
            self._parts.append(f"## the model ({choice.get('finish_reason')})\n\n{_text_of(message)}")

    def text(self, task: Task, gold: Gold | None, row: Row) -> str:
        """The whole try, as Markdown."""
        self._calls()
        how = "solved" if row.solved else f"not solved: {row.status}"
        head = [f"# {row.env}/{row.task}, {row.system}, seed {row.seed}: {how}", task.text]
        if gold is not None:
            own = "\n".join(f"- {name}({json.dumps(arguments, ensure_ascii=False)})" for name, arguments in gold.calls)
            head.append(f"## the task's own solution\n\n{own}\n\nanswer: {_short(gold.answer)}")
        end = [f"## the end\n\nanswer: {row.answer}\n\n{row.error}\n\n```python\n{row.program}\n```"]
        return "\n\n".join(head + self._parts + end) + "\n"

    def _calls(self) -> None:
        new = self._episode.calls[self._called :]
        self._called += len(new)
        if new:
            self._parts.append("## calls\n\n" + "\n".join(map(_call, new)))


def write_transcript(folder: Path, row: Row, text: str, record: TryRecord) -> None:
    """Keep a transcript as ``ENV/TASK.SYSTEM.SEED.md`` of a folder, and the record of the try as ``….json``.

    Raises:
        UsageError: they cannot be written.
    """
    path = _path(folder, row, "md")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
        path.with_name(path.name.removesuffix("md") + "json").write_bytes(_RECORD.dump_json(record))
    except OSError as error:
        raise UsageError(
            f"the transcript cannot be kept in {path}: {error.strerror}; make room or name another"
        ) from None


def read_record(folder: Path, row: Row) -> TryRecord | None:
    """The record of a try; ``None`` where the folder has none, or that of another version, model or terms.

    Raises:
        UsageError: the file is no record.
    """
    path = _path(folder, row, "json")
    try:
        record = _RECORD.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UsageError(f"{path} is no record of a try: {error}; delete it and make the try again") from None
    return record if record.key == row.key else None


def _path(folder: Path, row: Row, ending: str) -> Path:
    task = re.sub(r"[^\w.-]+", "_", row.task)
    return folder / row.env / f"{task}.{row.system}.{row.seed}.{ending}"


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    wanted = message.get("tool_calls")
    return text if not wanted else f"{text}\n{json.dumps(wanted, ensure_ascii=False)}"


def _call(call: MadeCall) -> str:
    verb = "gave" if call.done else "refused:"
    return f"- {call.tool}({json.dumps(call.arguments, ensure_ascii=False)}) {verb} {_short(call.answer)}"


def _short(value: Any, longest: int = _LONGEST) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= longest else text[:longest] + " …"
