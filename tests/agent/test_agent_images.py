"""Images with a task: who is shown them, what the trace keeps, and what a resumed run needs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Image, Message, Toolset, UsageError
from atc.errors import ModelError
from atc.result import Effect
from tests.support.agent import BAD, GOOD, agent, double
from tests.support.cli import atc, endpoints, settle
from tests.support.fake_openai_server import fails, says
from tests.support.images import JPEG, PNG
from tests.support.tools import make_tool

TASK = "double the number in the image"
WORDS = "The task comes with an image, shown here."


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    return file


def shown(prompts: Sequence[Sequence[Message]]) -> list[list[int]]:
    """How many images each message of each prompt has."""
    return [[len(message.images) for message in prompt] for prompt in prompts]


def model_of(made: Agent) -> FakeModel:
    model = made._resources.model()
    assert isinstance(model, FakeModel)
    return model


# Who is shown them.


def test_first_program_and_revision_are_written_with_the_images_and_nothing_else_is(picture: Path) -> None:
    nothing = "```python\ndouble(n=21)\nanswer = []\n```"
    made = agent(nothing, BAD, GOOD)
    assert made.run(TASK, images=[picture]).value == 42
    prompts = model_of(made).prompts
    assert shown(prompts) == [[0, 1], [0, 1], [0, 1]]
    assert prompts[0][-1].images == (Image.of(picture),)
    assert WORDS in prompts[0][-1].content


def test_without_images_a_prompt_says_nothing_of_them() -> None:
    made = agent(GOOD)
    made.run(TASK)
    assert "image, shown" not in model_of(made).prompts[0][-1].content


def test_the_papers_way_shows_them_with_the_task() -> None:
    made = agent(GOOD, strategy="atc-paper")
    assert made.run(TASK, images=[PNG, JPEG]).value == 42
    (prompt,) = model_of(made).prompts
    (with_images,) = [message for message in prompt if message.images]
    assert TASK in with_images.content
    assert "comes with 2 images" in with_images.content


def test_a_stream_shows_them() -> None:
    made = agent(GOOD)

    async def last() -> str:
        return [event.kind async for event in made.stream(TASK, images=[PNG])][-1]

    assert asyncio.run(last()) == "run_ended"
    assert shown(model_of(made).prompts) == [[0, 1]]


@pytest.mark.parametrize("model", ["embedded", None])
def test_a_model_without_images_is_turned_down_before_anything_runs(model: str | None, tmp_path: Path) -> None:
    fake = FakeModel([])
    fake.takes_images = False
    made = Agent([double], model=model or fake)
    with pytest.raises(UsageError, match=r"takes no images: use one behind an endpoint that does \(ATC_MODEL"):
        made.run(TASK, images=[PNG])
    assert made.store.list() == []


def test_images_take_room_in_the_prompt() -> None:
    with pytest.raises(UsageError, match="put a single image in a list"):
        agent(GOOD).run(TASK, images=PNG)  # type: ignore[arg-type]
    result = agent(GOOD, context_tokens=4_096).run(TASK, images=[PNG, JPEG])
    assert result.status == "failed"
    assert result.fault is not None
    assert "raise prompt_tokens or context_tokens" in result.fault.message


# What may stand in an image alone.


def test_an_id_that_no_text_has_is_told_once_and_no_write_is_made_unasked() -> None:
    known = {"type": "object", "properties": {"order_id": {"type": "string"}}}
    orders = make_tool("find_orders", lambda a: {"order_id": "A1"}, returns=known)
    booked: list[Any] = []
    number = {"type": "string"}
    cancel = make_tool("cancel_order", booked.append, Effect.WRITE, required=("order_id",), order_id=number)
    program = '```python\nanswer = [cancel_order(order_id="ZX-77")]\n```'

    def run(*images: bytes, **settings: Any) -> Any:
        made = agent(*[program] * 8, tools=Toolset([orders, cancel]), **settings)
        return made.run("cancel the order that the image shows", images=images)

    assert run().status == "unsolved"
    assert booked == []
    first, second, *_ = run(PNG).revisions
    assert first.findings[0].severity == "warning"
    assert "stands in neither the task nor a response" in first.findings[0].message
    assert (second.findings, second.fault is not None and second.fault.case) == ((), "warned")
    assert booked == []  # warnings ask, also under `always`
    run(PNG, warnings="allow")
    assert booked == [{"order_id": "ZX-77"}]


# What is kept, and a resume.


def begun(*images: Any) -> str:
    """The id of a run that the model broke off."""
    made = agent(ModelError("down"))
    assert made.run(TASK, images=images).status == "failed"
    return made.store.find("last").run_id


def test_the_trace_has_name_type_size_and_digest_and_no_bytes(picture: Path) -> None:
    made = agent(GOOD)
    made.run(TASK, images=[picture, JPEG])
    stored = made.store.find("last")
    started = stored.first("run_started")
    assert started is not None
    assert started["images"] == [Image.of(picture).facts(), Image.of(JPEG, 2).facts()]
    assert started["images"][0]["path"] == str(picture)
    assert started["images"][1].keys() == {"name", "type", "bytes", "sha256"}
    kept = b"".join(file.read_bytes() for file in stored.folder.iterdir())
    assert PNG not in kept
    assert base64.b64encode(PNG)[:40] not in kept


def test_a_resumed_run_reads_the_file_again(picture: Path) -> None:
    run_id = begun(picture, JPEG)
    made = agent(GOOD)
    assert made.resume(run_id, images=[JPEG]).value == 42
    assert shown(model_of(made).prompts) == [[0, 2]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.write_bytes(PNG + b"x"), "has changed since: give the same file again"),
        (lambda file: file.unlink(), "cannot be read again: .*No such file"),
        (lambda file: file.write_text("x"), "cannot be read again: .*no PNG"),
    ],
)
def test_a_file_that_changed_or_has_gone_is_asked_for(picture: Path, change: Any, words: str) -> None:
    run_id = begun(picture)
    change(picture)
    made = agent(GOOD)
    with pytest.raises(UsageError, match=words):
        made.resume(run_id)
    elsewhere = picture.with_name("b.png")
    elsewhere.write_bytes(PNG)
    assert made.resume(run_id, images=[elsewhere]).value == 42


def test_bytes_are_given_again_and_no_others() -> None:
    run_id = begun(PNG)
    made = agent(GOOD)
    with pytest.raises(UsageError, match="image 1, which came as bytes and is not kept: give the same file again"):
        made.resume(run_id)
    with pytest.raises(UsageError, match="was not shown image 2: give only its own images again"):
        made.resume(run_id, images=[PNG, JPEG])
    assert made.resume(run_id, images=[PNG]).value == 42


# The command.


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    settle(tmp_path, monkeypatch)
    with endpoints(monkeypatch) as start:
        yield start


def test_the_command_shows_files_to_the_model(endpoint: Any, picture: Path) -> None:
    server = endpoint(says(GOOD))
    Path("b.jpg").write_bytes(JPEG)
    ran = atc("run", TASK, "--tools", "tools.py", "--image", "a.png", "--image", "b.jpg")
    assert ran.exit_code == 0
    assert f"image a.png (image/png, {len(PNG)} bytes)" in ran.stdout
    assert "image b.jpg (image/jpeg" in atc("runs", "show", "last").stdout
    text, *images = server.requests[0]["messages"][-1]["content"]
    assert text["type"] == "text"
    assert [part["image_url"]["url"][:16] for part in images] == ["data:image/png;b", "data:image/jpeg;"]


def test_a_refusal_of_the_endpoint_ends_the_run_and_it_can_be_resumed(endpoint: Any, picture: Path) -> None:
    server = endpoint(fails(400, "this model does not support image input"), says(GOOD))
    ran = atc("run", TASK, "--tools", "tools.py", "--image", "a.png")
    assert ran.exit_code == 1
    assert "this endpoint takes no images: 'tiny' at " in ran.stdout
    assert len(server.requests) == 1
    picture.rename("c.png")
    assert atc("resume", "last").exit_code == 2
    ran = atc("resume", "last", "--image", "c.png")
    assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("file", ["tools.py", "none.png", "https://example.org/a.png"])
def test_a_wrong_file_is_wrong_use_and_nothing_is_asked(endpoint: Any, file: str) -> None:
    server = endpoint(says(GOOD))
    ran = atc("run", TASK, "--tools", "tools.py", "--image", file)
    assert ran.exit_code == 2
    assert file in ran.stderr
    assert server.requests == []
