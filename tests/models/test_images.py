"""Images: what is taken, what an endpoint is sent, and what it says to that."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import ModelError, UsageError
from atc.models.base import Model, WrappedModel
from atc.models.cache import CachedModel
from atc.models.endpoint_errors import refuses_images
from atc.models.fake import FakeModel
from atc.models.images import IMAGE_TOKENS, MAX_BYTES, MAX_IMAGES, Image, read_images
from atc.models.messages import Message, ModelRequest, Reply, estimate_tokens
from atc.models.openai_compatible import OpenAICompatible
from tests.support.fake_openai_server import Server, fails, says, serving, status_error
from tests.support.images import GIF, JPEG, PNG, WEBP


def endpoint(server: Server) -> OpenAICompatible:
    return OpenAICompatible("tiny", server.url, "key", backoff_s=0.01, context_tokens=30_000)


def prompt(*images: Any) -> list[Message]:
    return [Message("system", "Look."), Message("user", "What is it?", images=read_images(images))]


def ask(model: Model, *images: Any, **options: Any) -> Reply:
    return asyncio.run(model.complete(prompt(*images), **options))


# What is taken.


@pytest.mark.parametrize(
    ("data", "kind"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
)
def test_an_image_is_known_by_its_bytes_wherever_it_comes_from(tmp_path: Path, data: bytes, kind: str) -> None:
    file = tmp_path / "picture.txt"
    file.write_bytes(data)
    url = f"data:image/bmp;base64,{base64.b64encode(data).decode()}"
    images = read_images([file, str(file), data, bytearray(data), url])
    assert {(image.media_type, image.data) for image in images} == {(kind, data)}
    assert [image.name for image in images] == ["picture.txt", "picture.txt", "image 3", "image 4", "image 5"]
    assert [image.path for image in images] == [str(file)] * 2 + [None] * 3
    assert read_images(images) == images
    assert images[0].data_url == f"data:{kind};base64,{base64.b64encode(data).decode()}"


def test_a_path_of_this_folder_or_of_home_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("a.png").write_bytes(PNG)
    assert [image.path for image in read_images(["a.png", "~/a.png"])] == [str(tmp_path / "a.png")] * 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no.png", "no.png cannot be read: No such file"),
        (".", "is no file"),
        ("pipe", "is no file"),
        ("/dev/zero", "is no file"),
        ("", "names no file"),
        ("a\0b", "names no file"),
        ("x" * 5_000, "cannot be read"),
        ("\ud800.png", "no file has such a name"),
        ("text.png", "no PNG, JPEG, WebP or GIF by its first bytes"),
        ("https://example.org/a.png", "is the address 'https://example.org/a.png', and none is fetched: save it"),
        ("file:///a.png", "none is fetched"),
        ("data:text/html,<b>", "write data:image/png;base64"),
        ("data:image/png;base64,!!!!", "base64 is damaged"),
        ("data:image/png;base64,", "is empty"),
        (b"", "is empty"),
        (b"<svg/>", "convert it to one of these"),
        (7, "must be a path, bytes or a data: URL, not int"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_image_is_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.png").write_text("hello")
    os.mkfifo("pipe")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match=words):
        read_images([source])
    assert len(os.listdir("/proc/self/fd")) == before


def test_images_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="8 images at most"):
        read_images([PNG] * (MAX_IMAGES + 1))
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.write(PNG)
        file.truncate(1 << 40)  # a sparse file: it is not read to its end
    with pytest.raises(UsageError, match="more than 10 MiB"):
        read_images([large])
    with pytest.raises(UsageError, match="more than 10 MiB"):
        read_images(["data:image/png;base64," + "A" * (MAX_BYTES * 2)])
    with pytest.raises(UsageError, match="more than 20 MiB together"):
        read_images([PNG + bytes(MAX_BYTES - len(PNG))] * 3)
    for single in ("a.png", PNG, tmp_path, Image.of(PNG), 5):
        with pytest.raises(UsageError, match="put a single image in a list"):
            read_images(single)  # type: ignore[arg-type]


@given(st.binary(max_size=40) | st.text(max_size=40) | st.text(max_size=40).map(lambda text: f"data:{text}"))
def test_whatever_is_given_is_an_image_or_wrong_use(source: bytes | str) -> None:
    try:
        (image,) = read_images([source])
    except UsageError:
        return
    assert image.media_type.startswith("image/")


# What an endpoint is sent.


def test_an_endpoint_gets_text_and_images_as_parts_of_one_message() -> None:
    with serving(says("a cat")) as server:
        assert ask(endpoint(server), PNG, JPEG).text == "a cat"
    system, user = server.requests[0]["messages"]
    assert system == {"role": "system", "content": "Look."}
    assert user["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": Image.of(PNG).data_url}},
        {"type": "image_url", "image_url": {"url": Image.of(JPEG).data_url}},
    ]


def test_images_stay_where_an_endpoint_has_no_system_role_or_no_format() -> None:
    refusal = "Invalid parameter: 'response_format' is not supported with this model."
    with serving(fails(400, "system role not supported"), fails(400, refusal), says('{"choice": "b"}')) as server:
        assert ask(endpoint(server), PNG, choices=["a", "b"]).value == "b"
    (message,) = server.requests[-1]["messages"]
    text, image = message["content"]
    assert text["text"].startswith("Look.\n\nWhat is it?\n\n")
    assert image["image_url"]["url"] == Image.of(PNG).data_url


def test_an_image_counts_in_estimates() -> None:
    assert estimate_tokens(prompt(PNG, PNG)) - estimate_tokens(prompt()) == 2 * IMAGE_TOKENS


def test_another_image_is_another_question(tmp_path: Path) -> None:
    cached = CachedModel(FakeModel(["none", "a png", "a jpeg"]), tmp_path)
    for _ in range(2):
        assert [ask(cached, *images).text for images in ((), (PNG,), (JPEG,))] == ["none", "a png", "a jpeg"]


REFUSALS = [
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "this model does not support image input (ref: 1)"),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (500, 'Failed to parse messages: Unsupported content part type: "image_url"'),
    (500, "unsupported content[].type"),
    (404, "No endpoints found that support image input"),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (400, "tiny is not a multimodal model"),
    (400, "Image input is not enabled for this model"),
    (422, "messages[1]: unknown variant `image_url`, expected `text`"),
    (400, "('messages.1.content' : value must be a string)"),
    (400, "[{'type': 'text'}] is not of type 'string' - 'messages.1.content'"),
    (422, "{'loc': ['body', 'messages', 1, 'content'], 'msg': 'Input should be a valid string'}"),
    (400, "Model does not support images. Please use a model that does."),
]


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_images_are_refused_in_many_words(status: int, words: str) -> None:
    assert refuses_images(status_error(status, words))
    assert not refuses_images(status_error(429, words))


def test_an_endpoint_without_images_is_named_as_that_after_one_request() -> None:
    with (
        serving(fails(*REFUSALS[2])) as server,
        pytest.raises(ModelError, match=r"this endpoint takes no images: 'tiny' at http.* Use a model that takes"),
    ):
        ask(endpoint(server), PNG)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "You uploaded an unsupported image. Please make sure your image is below 20 MB.",
        "The image format is not supported.",
        "does not support image type gif",
        "Could not process image",
        "the model is asleep",
    ],
)
def test_a_refusal_of_this_one_image_is_shown_as_it_is(words: str) -> None:
    assert not refuses_images(status_error(400, words))


def test_without_images_the_same_words_are_another_error() -> None:
    with serving(fails(400, REFUSALS[1][1])) as server, pytest.raises(ModelError, match="answered 400"):
        ask(endpoint(server))


def test_a_model_of_ones_own_takes_images_where_it_says_so() -> None:
    class Blind(Model):
        name, context_tokens = "blind", 1_000

        async def generate(self, request: ModelRequest) -> Reply:
            return Reply(str(len(request.messages[-1].images)), "stop", 1, 1, 0.0)

    class Seeing(Blind):
        takes_images = True

    assert ask(Blind()).text == "0"
    assert ask(WrappedModel(Seeing()), PNG).text == "1"
    for model in (Blind(), WrappedModel(Blind())):
        with pytest.raises(UsageError, match="the model 'blind' takes no images: use one behind an endpoint"):
            ask(model, PNG)
