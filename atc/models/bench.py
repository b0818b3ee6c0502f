"""How fast a model is on this machine: how long it loads, and how many tokens a second it reads, writes and revises."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import httpx

from atc.errors import ModelError
from atc.models.embedded_process import EmbeddedServer, ServerSettings
from atc.models.messages import Message
from atc.wording.prompting import prompt

WRITTEN = 96
"""Tokens of a reply that is timed, at most."""
_ASK_S = 600.0
_TASK = "Print the first ten primes, the sum of their squares, and the longest gap between two of them. No tools."
_REVISE = "Give the whole program again, with the variable `primes` renamed to `found`."


@dataclass(frozen=True)
class Timing:
    """One reply: what was read and written, in which seconds."""

    text: str
    read: int
    read_s: float
    written: int
    written_s: float


class Subject(Protocol):
    """One runtime with one setting, as it is measured.

    Attributes:
        runtime: its name.
        setting: what it is started with, in words.
    """

    runtime: str
    setting: str

    def start(self) -> None:
        """Load the model, and return when it can be asked."""

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Timing:
        """One greedy reply. What was read before is not read again."""

    def memory(self) -> int:
        """Bytes that it took at most, with the pages of its file."""

    def stop(self) -> None:
        """Give up everything. May be called at any time."""


@dataclass(frozen=True)
class Figures:
    """The figures of one measurement. Speeds are tokens a second.

    Attributes:
        load_s: seconds until it could be asked.
        reads: of a prompt that it has not seen.
        writes: of a first program.
        revises: of the same program with a small change.
        memory: bytes, at most.
    """

    runtime: str
    setting: str
    load_s: float
    reads: float
    writes: float
    revises: float
    memory: int


def measure(subject: Subject, report: Callable[[str], None] = lambda _: None) -> Figures:
    """Measure one subject once: some half a minute on two cores.

    Args:
        subject: what is measured; it is started and stopped here.
        report: called with a word on what comes next.

    Raises:
        ModelUnavailable, ModelError: it does not start, or does not answer.
    """
    try:
        report("loads")
        began = time.perf_counter()
        subject.start()
        load_s = time.perf_counter() - began
        messages = [
            Message("system", prompt("system")),
            Message("user", prompt("example_task")),
            Message("assistant", prompt("example_program")),
            Message("user", f"Task: {_TASK}"),
        ]
        report("reads")
        read = subject.ask(messages, 1)
        report("writes")
        wrote = subject.ask(messages, WRITTEN)
        report("revises")
        revised = subject.ask([*messages, Message("assistant", wrote.text), Message("user", _REVISE)], WRITTEN)
        return Figures(
            subject.runtime,
            subject.setting,
            round(load_s, 2),
            _speed(read.read, read.read_s),
            _speed(wrote.written, wrote.written_s),
            _speed(revised.written, revised.written_s),
            subject.memory(),
        )
    finally:
        subject.stop()


def paired(
    subjects: Sequence[Subject], rounds: int, report: Callable[[str], None] = lambda _: None
) -> list[list[Figures]]:
    """Measure several subjects in turns: for each, its figures of every round.

    Raises:
        As :func:`measure`.
    """
    made: list[list[Figures]] = [[] for _ in subjects]
    for number in range(rounds):
        for subject, figures in zip(subjects, made, strict=True):
            name = f"{subject.runtime}, {subject.setting}" + (f", round {number + 1}" if rounds > 1 else "")
            figures.append(measure(subject, lambda what, name=name: report(f"{name}: {what}")))  # type: ignore[misc]
    return made


def middle(figures: Sequence[Figures]) -> Figures:
    """The median of each figure; the most memory."""
    return Figures(
        figures[0].runtime,
        figures[0].setting,
        round(median(each.load_s for each in figures), 2),
        round(median(each.reads for each in figures), 1),
        round(median(each.writes for each in figures), 1),
        round(median(each.revises for each in figures), 1),
        max(each.memory for each in figures),
    )


class LlamaCpp:
    """The embedded model's own server.

    Args:
        settings: what it is started with; nothing is kept on disk of what it reads.
        setting: that, in words; its threads when not given.
    """

    runtime = "llama.cpp"

    def __init__(self, settings: ServerSettings, setting: str = "") -> None:
        self.setting = setting or f"{settings.threads} threads"
        self._settings = settings
        self._server: EmbeddedServer | None = None

    def start(self) -> None:
        self._server = EmbeddedServer(self._settings)

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Timing:
        assert self._server is not None
        body = {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "cache_prompt": True,
        }
        key = {"Authorization": f"Bearer {self._server.api_key}"}
        try:
            with httpx.Client(trust_env=False, timeout=_ASK_S) as client:
                answer = client.post(f"{self._server.url}/chat/completions", json=body, headers=key)
                got = answer.raise_for_status().json()
            timings = got["timings"]
            return Timing(
                got["choices"][0]["message"]["content"],
                timings["prompt_n"],
                timings["prompt_ms"] / 1000,
                timings["predicted_n"],
                timings["predicted_ms"] / 1000,
            )
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as problem:
            why = repr(problem) if self._server.alive() else self._server.why_ended()
            raise ModelError(f"the embedded model did not answer: {why}") from None

    def memory(self) -> int:
        if self._server is None:
            return 0
        for line in Path(f"/proc/{self._server.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


def _speed(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 1) if seconds > 0 else 0.0
