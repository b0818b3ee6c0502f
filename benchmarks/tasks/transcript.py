"""What was said in one try: what the model was told and answered, and the calls that reached a tool, as one text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atc.errors import UsageError
from benchmarks.environments.base import Episode, Gold, MadeCall, Task
from benchmarks.tasks.rows import Row

_LONGEST = 2_000  # characters of what one call gave


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


def write_transcript(folder: Path, row: Row, text: str) -> None:
    """Keep a transcript as ``ENV/TASK.SYSTEM.SEED.md`` of a folder.

    Raises:
        UsageError: it cannot be written.
    """
    task = re.sub(r"[^\w.-]+", "_", row.task)
    path = folder / row.env / f"{task}.{row.system}.{row.seed}.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"the transcript cannot be kept in {path}: {error.strerror}; make room or name another"
        ) from None


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    wanted = message.get("tool_calls")
    return text if not wanted else f"{text}\n{json.dumps(wanted, ensure_ascii=False)}"


def _call(call: MadeCall) -> str:
    verb = "gave" if call.done else "refused:"
    return f"- {call.tool}({json.dumps(call.arguments, ensure_ascii=False)}) {verb} {_short(call.answer)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
