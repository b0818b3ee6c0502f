"""What is the same in every prompt is read once and kept on disk. No task ever is, and damage costs only time."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from atc import Agent
from atc.models.catalogue import CATALOGUE
from atc.models.embedded import EmbeddedModel, runtime_installed
from atc.models.embedded_process import Gate, KeepPrompts, PromptCache, kept_prefixes
from atc.models.fake import FakeModel
from atc.models.fetch import models_dir
from atc.models.messages import Message
from tests.support.agent import GOOD, double
from tests.support.few import few

RULES = Message("system", "Mind the rules. " * 80, fixed=True)
TASK = Message("user", "my secret task")


class Server:
    """Saves and restores like llama.cpp, one text."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.holds, self.full = folder, b"", False

    def __call__(self, action: str, name: str) -> int:
        file = self.folder / name
        if action == "restore":
            self.holds = file.read_bytes()
            return len(self.holds)
        file.write_bytes(self.holds[:3] if self.full else self.holds)
        return 0 if self.full else len(self.holds)


def kept(folder: Path, reader: str = "a model", max_bytes: int = 100) -> tuple[PromptCache, Server]:
    server = Server(folder)
    return PromptCache(folder, reader, server, max_bytes), server


def test_what_was_read_is_taken_back_by_the_next_process(tmp_path: Path) -> None:
    first, server = kept(tmp_path)
    key = first.key([RULES])
    assert not first.restore(key)
    server.holds = b"read"
    first.save(key)
    second, other = kept(tmp_path)
    assert second.restore(second.key([RULES]))
    assert other.holds == b"read"
    assert [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()] == [0o600]


def test_another_model_or_another_beginning_is_read_anew(tmp_path: Path) -> None:
    first, server = kept(tmp_path)
    server.holds = b"read"
    first.save(first.key([RULES]))
    other_model, _ = kept(tmp_path, "another model")
    assert not other_model.restore(other_model.key([RULES]))
    assert not first.restore(first.key([RULES, Message("user", "an example", fixed=True)]))


@pytest.mark.parametrize("damage", [b"", b"rea", b"reaD", b"read and more"])
def test_a_damaged_file_is_not_taken_and_not_kept(tmp_path: Path, damage: bytes) -> None:
    first, server = kept(tmp_path)
    server.holds = b"read"
    first.save(first.key([RULES]))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    second, other = kept(tmp_path)
    assert not second.restore(second.key([RULES]))
    assert other.holds == b""
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, server = kept(tmp_path)
    server.holds, server.full = b"read", True
    first.save(first.key([RULES]))
    assert list(tmp_path.iterdir()) == []
    server.full = False

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", no_room)
    first.save(first.key([RULES]))
    assert list(tmp_path.iterdir()) == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    first, server = kept(tmp_path, max_bytes=12)
    server.holds = b"read"
    for number in range(6):
        before = set(tmp_path.iterdir())
        first.save(first.key([Message("system", str(number))]))
        (new,) = set(tmp_path.iterdir()) - before
        os.utime(new, (number, number))  # a clock of whole seconds would not tell them apart
    assert len(list(tmp_path.iterdir())) == 3
    assert first.restore(first.key([Message("system", "5")]))
    assert not first.restore(first.key([Message("system", "0")]))
    server.holds = b"more than all of them may have"
    first.save(first.key([RULES]))
    assert first.restore(first.key([RULES]))
    assert len(list(tmp_path.iterdir())) == 1


def test_what_holds_more_than_was_to_be_read_is_not_kept(tmp_path: Path) -> None:
    first, server = kept(tmp_path)
    server.holds = b"what another request asked"
    first.save(first.key([RULES]), most=4)
    assert list(tmp_path.iterdir()) == []


def shared(documents: str, task: str) -> Message:
    return Message("user", documents + task, stable=len(documents))


DOCUMENTS = "def double(n: int) -> int: ...\n" * 40


@pytest.mark.parametrize(
    ("messages", "keep", "expected"),
    [
        ([RULES, TASK], "tools", [1]),
        ([RULES, shared(DOCUMENTS, "my secret task")], "tools", [2, 1]),
        ([RULES, shared(DOCUMENTS, "my secret task")], "instructions", [1]),
        ([RULES, shared(DOCUMENTS, "my secret task")], "nothing", []),
        ([RULES, shared("short", "my secret task")], "tools", [1]),
        ([RULES, TASK, shared(DOCUMENTS, "my secret task")], "tools", [1]),
        ([shared(DOCUMENTS, "my secret task"), RULES], "tools", [1]),
        ([TASK, RULES], "tools", []),
        ([Message("system", "Be brief.", fixed=True), TASK], "tools", []),
        ([RULES], "tools", []),
    ],
)
def test_only_what_many_prompts_begin_with_is_kept(
    messages: list[Message], keep: KeepPrompts, expected: list[int]
) -> None:
    prefixes = kept_prefixes(messages, keep)
    assert [len(prefix) for prefix in prefixes] == expected
    assert "secret" not in "".join(message.content for prefix in prefixes for message in prefix)


def asked(task: str, tools: list[Callable[..., Any]], **settings: Any) -> Sequence[Message]:
    model = FakeModel([GOOD] * 9)
    Agent(tools, model=model, approve="always", sentence=False, keep_runs=False, **settings).run(task)
    return model.prompts[0]


def test_the_documents_of_the_tools_are_stable_and_the_task_is_not() -> None:
    first, second = asked("double 21", [double]), asked("what is 4 * 2?", [double])
    assert [message.stable for message in first[:-1]] == [0] * (len(first) - 1)
    begin = first[-1].content[: first[-1].stable]
    assert begin == second[-1].content[: second[-1].stable]
    assert "def double(" in begin
    assert begin.endswith("\n")
    assert "21" not in begin


def test_the_users_instructions_are_not_stable() -> None:
    asked_so = asked("double 21", [double], instructions="our tenant is acme")[-1]
    assert asked_so.stable == asked("double 21", [double])[-1].stable
    assert "acme" in asked_so.content[asked_so.stable :]


def test_documents_that_the_task_chose_are_not_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [named(f"tool_{number}", "word " * 300) for number in range(3)]
    assert asked("tool_1", [double, *tools], prompt_tokens=900)[-1].stable == 0  # shortened
    assert asked("tool_1", [double, *tools], **few(monkeypatch, 2))[-1].stable == 0  # picked
    assert asked("tool_1", [double, *tools])[-1].stable > 0


def named(name: str, description: str) -> Callable[..., Any]:
    def tool(n: int) -> int:
        return n

    tool.__name__, tool.__doc__ = name, f"Return it. {description}"
    return tool


def test_a_request_alone_keeps_others_out_and_does_not_wait() -> None:
    gate, seen = Gate(), []

    async def beside() -> None:
        async with gate.beside():
            seen.append("in")

    async def all_of_it() -> None:
        async with gate.beside(), gate.alone() as alone:
            assert not alone
        async with anyio.create_task_group() as group, gate.alone() as alone, gate.alone() as another:
            assert (alone, another) == (True, False)
            group.start_soon(beside)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            assert seen == []
        assert seen == ["in"]

    asyncio.run(all_of_it())


@pytest.mark.slow
def test_the_embedded_model_answers_the_same_from_what_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [models_dir() / entry.file for entry in CATALOGUE.values()]
    file = next((file for file in files if file.is_file()), None)
    if file is None or not runtime_installed():
        pytest.skip("no embedded model here: pip install -e '.[embedded]' && atc model pull")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    async def said(task: str) -> str:
        model = EmbeddedModel(file, context_tokens=2048)
        try:
            text = (await model.complete([RULES, shared(DOCUMENTS, task)], max_tokens=12)).text
            server = await model._server()
            assert server.prompt_cache is not None
            assert len(server.prompt_cache.loaded) == 2
            return text
        finally:
            await model.aclose()

    first = asyncio.run(said("Count from 1 to 5."))
    folder = tmp_path / "atc" / "prompts"
    kept = {file.name for file in folder.iterdir()}
    assert len(kept) == 2
    assert asyncio.run(said("Count from 1 to 5.")) == first
    asyncio.run(said("Name a colour."))
    assert {file.name for file in folder.iterdir()} == kept, "nothing was read anew"
    entry = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    entry.write_bytes(entry.read_bytes()[:-1000])
    assert asyncio.run(said("Count from 1 to 5.")) == first
    assert len(list(folder.iterdir())) == 2
