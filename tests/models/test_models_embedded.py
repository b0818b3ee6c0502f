"""The embedded model needs no account: what it needs is said, and its process is never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from atc.errors import ContextExceeded, ModelUnavailable, UsageError
from atc.models import embedded, embedded_process
from atc.models.cache import CachedModel
from atc.models.catalogue import CATALOGUE
from atc.models.embedded import EmbeddedModel, runtime_installed
from atc.models.embedded_process import EmbeddedServer, ServerSettings
from atc.models.fetch import models_dir
from atc.models.messages import Message
from atc.models.resolve import prepare_model
from tests.support.mcp import gone

PROMPT = [Message("user", "Write one line of Python that prints hello. Only the code.")]
BOTH_WAYS = r"pip install .*\[embedded\]' && atc model pull.*OPENAI_BASE_URL"


def test_a_missing_file_names_both_ways_to_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=BOTH_WAYS):
        asyncio.run(EmbeddedModel(tmp_path / "none.gguf").complete(PROMPT))


def test_a_missing_runtime_names_both_ways_to_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(embedded, "runtime_installed", lambda: False)
    with pytest.raises(ModelUnavailable, match="xllamacpp.*" + BOTH_WAYS):
        asyncio.run(EmbeddedModel(tmp_path / "some.gguf").complete(PROMPT))


def test_half_a_known_file_is_told_from_a_whole_one(tmp_path: Path) -> None:
    entry = CATALOGUE["smollm2-135m"]
    (tmp_path / entry.file).write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match="atc model pull smollm2-135m"):
        EmbeddedModel(tmp_path / entry.file).check()


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"threads": 0}, {"context_tokens": -1}])
def test_settings_that_cannot_work_are_turned_down(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        EmbeddedModel(**wrong)  # type: ignore[arg-type]


def test_closing_a_model_that_was_never_used_is_nothing() -> None:
    asyncio.run(EmbeddedModel("/nowhere/none.gguf").aclose())


def test_a_server_that_does_not_come_up_names_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"this is no model")
    with pytest.raises(ModelUnavailable, match=r"junk\.gguf.*server\.log"):
        EmbeddedServer(ServerSettings(str(junk), "junk", 1, 1, 512), log=tmp_path / "server.log")
    assert (tmp_path / "server.log").exists()
    assert children(os.getpid()) == []


def test_what_cannot_be_started_counts_characters_and_has_the_context_that_was_set(tmp_path: Path) -> None:
    model = EmbeddedModel(tmp_path / "none.gguf", context_tokens=777)
    assert asyncio.run(model.count_tokens("a" * 30)) == 10
    assert asyncio.run(model.context_size()) == 777


class Starting:
    """A server that takes its time to come up."""

    def __init__(self, settings: ServerSettings) -> None:
        self.stopped = False
        asked.set()
        assert go_on.wait(10)

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        self.stopped = True


asked, go_on = threading.Event(), threading.Event()


def test_a_prepared_model_starts_while_the_caller_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_process, "EmbeddedServer", Starting)
    monkeypatch.setattr(embedded, "runtime_installed", lambda: True)
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    model = EmbeddedModel(tmp_path / "some.gguf")
    model.prepare()
    assert asked.wait(10)
    embedded_process.shared.stop_all()  # the end of a process does not wait for a start
    go_on.set()
    server = asyncio.run(model._server())
    assert isinstance(server, Starting)
    asyncio.run(model.aclose())
    assert server.stopped


def test_a_model_that_cannot_be_started_is_prepared_in_silence(tmp_path: Path) -> None:
    EmbeddedModel(tmp_path / "none.gguf").prepare()
    CachedModel(EmbeddedModel(tmp_path / "none.gguf"), tmp_path).prepare()
    prepare_model(f"embedded:{tmp_path}/none.gguf")
    prepare_model("no such: spec", context_tokens=-1)


def children(pid: int) -> list[int]:
    """The server processes among a process's children.

    By the parent that each process names: the lists of children by thread lose one that moves, as when the thread that
    began it ends.
    """
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid and "embedded_server" in (process / "cmdline").read_text():
                found.append(int(process.name))
    return found


@pytest.fixture
def real_file() -> Path:
    """The smallest known model that is on this machine."""
    if not runtime_installed():
        pytest.skip("xllamacpp is not installed: pip install -e '.[embedded]'")
    for entry in sorted(CATALOGUE.values(), key=lambda known: known.size):
        if (models_dir() / entry.file).is_file():
            return models_dir() / entry.file
    pytest.skip(f"no model file in {models_dir()}: run `atc model pull`")


@pytest.mark.slow
def test_a_real_model_answers_and_its_process_is_gone_after_closing(real_file: Path) -> None:
    model = EmbeddedModel(real_file, slots=2, context_tokens=1024)

    async def asked() -> str:
        pieces: list[str] = []
        reply = await model.complete(PROMPT, max_tokens=24, on_text=pieces.append)
        assert reply.text == "".join(pieces)
        assert reply.prompt_tokens > 10
        assert 0 < reply.completion_tokens <= 24
        again = await model.complete(PROMPT, max_tokens=24)
        assert again.text == reply.text
        assert await model.context_size() == 1024
        assert 5 < await model.count_tokens(PROMPT[0].content) < len(PROMPT[0].content) / 3
        with pytest.raises(ContextExceeded) as caught:
            await model.complete([Message("user", "again and " * 1000)], max_tokens=8)
        assert caught.value.limit == 1024
        assert caught.value.requested is not None
        assert caught.value.requested > 1024
        return reply.text

    assert asyncio.run(asked()).strip()
    (server,) = children(os.getpid())
    cmdline = Path(f"/proc/{server}/cmdline").read_text()
    assert "key" not in cmdline
    asyncio.run(model.aclose())
    assert gone(server)


@pytest.mark.slow
def test_two_users_share_a_process_and_the_last_one_ends_it(real_file: Path) -> None:
    one, two = (EmbeddedModel(real_file, context_tokens=512) for _ in range(2))
    for model in (one, two):
        asyncio.run(model.complete(PROMPT, max_tokens=1))
    (server,) = children(os.getpid())
    asyncio.run(one.aclose())
    time.sleep(0.2)
    assert children(os.getpid()) == [server]
    asyncio.run(two.aclose())
    assert gone(server)


PARENT = """
import asyncio, sys, time
from atc.models.embedded import EmbeddedModel
from atc.models.messages import Message
model = EmbeddedModel(sys.argv[1], context_tokens=512)
asyncio.run(model.complete([Message("user", "hi")], max_tokens=1))
print("up", flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_the_process_dies_with_its_parent_however_that_ends(real_file: Path, end: signal.Signals | None) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(real_file), "wait" if end else "exit"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(Path(embedded.__file__).parents[2])},
    )
    assert parent.stdout is not None
    with parent:
        assert parent.stdout.readline() == b"up\n"
        servers = children(parent.pid)
        if end is not None:
            assert len(servers) == 1
            parent.send_signal(end)
        parent.wait(timeout=60)
    assert all(gone(server) for server in servers)
