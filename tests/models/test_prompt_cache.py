"""What is the same in every prompt is read once and kept on disk. No task ever is, and damage costs only time."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from atc import Agent
from atc.models import EmbeddedModel, FakeModel, Message
from atc.models.catalogue import CATALOGUE
from atc.models.embedded import runtime_installed
from atc.models.fetch import models_dir
from atc.models.prompt_cache import MAX_FILES, PromptCache, fixed_prefix
from tests.support.agent import GOOD, double

RULES = Message("system", "Mind the rules. " * 80, fixed=True)
TASK = Message("user", "my secret task")


class Server:
    """Saves and restores like llama.cpp, one text."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.holds, self.full = folder, b"", False

    def __call__(self, action: str, name: str) -> bool:
        file = self.folder / name
        if action == "restore":
            self.holds = file.read_bytes()
            return True
        file.write_bytes(self.holds[:3] if self.full else self.holds)
        return not self.full


def kept(folder: Path, reader: str = "a model") -> tuple[PromptCache, Server]:
    server = Server(folder)
    return PromptCache(folder, reader, server), server


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


def test_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    first, server = kept(tmp_path)
    server.holds = b"read"
    for number in range(MAX_FILES + 3):
        before = set(tmp_path.iterdir())
        first.save(first.key([Message("system", str(number))]))
        (new,) = set(tmp_path.iterdir()) - before
        os.utime(new, (number, number))  # a clock of whole seconds would not tell them apart
    assert len(list(tmp_path.iterdir())) == MAX_FILES
    assert first.restore(first.key([Message("system", str(MAX_FILES + 2))]))
    assert not first.restore(first.key([Message("system", "0")]))


def test_only_what_every_prompt_begins_with_is_fixed() -> None:
    assert fixed_prefix([RULES, TASK]) == (RULES,)
    assert fixed_prefix([TASK, RULES]) == ()
    assert fixed_prefix([Message("system", "Be brief.", fixed=True), TASK]) == ()
    assert fixed_prefix([RULES]) == ()


def test_a_task_and_its_tools_are_never_fixed() -> None:
    model = FakeModel([GOOD])
    Agent([double], model=model, approve="always", sentence=False).run("double 21")
    (asked,) = model.prompts
    beginning = fixed_prefix(asked)
    assert len(beginning) == len(asked) - 1
    assert "double" not in "".join(message.content for message in beginning)


@pytest.mark.slow
def test_the_embedded_model_answers_the_same_from_what_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [models_dir() / entry.file for entry in CATALOGUE.values()]
    file = next((file for file in files if file.is_file()), None)
    if file is None or not runtime_installed():
        pytest.skip("no embedded model here: pip install 'atc-runtime[embedded]' && atc model pull")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    async def said() -> tuple[str, bool]:
        model = EmbeddedModel(file, context_tokens=1024)
        try:
            server = await model._server()
            assert server.prompt_cache is not None
            there = server.prompt_cache.restore(server.prompt_cache.key([RULES]))
            reply = await model.complete([RULES, Message("user", "Count from 1 to 5.")], max_tokens=12)
            return reply.text, there
        finally:
            await model.aclose()

    (first, not_yet), (second, there) = asyncio.run(said()), asyncio.run(said())
    assert (not_yet, there) == (False, True)
    assert first == second
    (entry,) = (tmp_path / "atc" / "prompts").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1000])
    assert asyncio.run(said()) == (first, False)
