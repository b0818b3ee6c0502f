"""The frame parser on the host: whatever bytes come out of a sandbox, a message or a FrameError."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.outcome import Outcome
from atc._records.strict_json import parse
from atc.calls.clock import HostTime
from atc.errors import FrameError
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.frames import HostShare, SocketChannel
from atc.sandboxes.channel.session import as_program_error
from atc.sandboxes.remote import messages
from tests.support.time import little_work

LIMIT = 10_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(data: bytes, limit: int = LIMIT) -> list[dict[str, Any]]:
    """All frames of a program that sent ``data`` and closed its end."""

    async def go() -> list[dict[str, Any]]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            channel, kept = SocketChannel(ours, limit), Kept()
            sending = asyncio.create_task(asyncio.to_thread(_send, theirs, data))
            try:
                channel.listen(kept)
                await kept.over
                return kept.frames
            finally:
                channel.close()
                ours.close()  # what is still to be sent has nobody to read it
                await sending

    return asyncio.run(go())


class Kept:
    """Keeps what a channel hands over."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_frame(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)

    def on_end(self, error: Exception | None) -> None:
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_what_is_encoded_is_read_back(message: dict[str, Any]) -> None:
    try:
        text = json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(FrameError, match="surrogates not allowed"):
            read(frames.encode(message), 10**7)
        return
    assert read(frames.encode(message) * 2, 10**7) == [json.loads(text)] * 2


def test_a_flood_of_frames_comes_whole_and_in_order() -> None:
    sent = [{"n": number} for number in range(500)]
    assert read(b"".join(map(frames.encode, sent))) == sent


def test_what_came_before_the_end_of_the_stream_is_handed_over_and_counted() -> None:
    """A program may end at once after its last frame: what of it waits for its turn is no half frame."""
    sent, charged = [{"n": number} for number in range(500)], list[float]()

    async def go() -> list[dict[str, Any]]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                theirs.sendall(b"".join(map(frames.encode, sent)))
            channel, kept = SocketChannel(ours, LIMIT), Kept()
            share = channel.share = HostShare(HostTime(), 60.0, lambda: None)
            share.charge = charged.append  # type: ignore[method-assign]
            channel.listen(kept)
            await kept.over
            channel.close()
            return kept.frames

    assert asyncio.run(go()) == sent
    assert len(charged) >= len(sent) / 32  # each turn


def test_frames_that_are_sent_at_once_go_out_whole_where_the_other_side_is_slow() -> None:
    sizes = [1_000_000, 10, 500_000, 10, 10, 700_000]

    async def go() -> list[int]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sending, reading = SocketChannel(ours, LIMIT), SocketChannel(theirs, 1 << 21)
            kept = Kept()
            work = [asyncio.ensure_future(sending.send({"n": "x" * size})) for size in sizes]
            await asyncio.sleep(0)  # the first one has sent a part, and the others wait for it
            work[2].cancel()  # it has sent nothing: no other frame is in pieces
            reading.listen(kept)
            for _ in range(20):  # while there is room at times
                work.append(asyncio.ensure_future(sending.send({"n": ""})))
                await asyncio.sleep(0)
            await asyncio.gather(*work, return_exceptions=True)
            ours.shutdown(socket.SHUT_WR)
            await kept.over
            return sorted(len(frame["n"]) for frame in kept.frames)

    assert asyncio.run(asyncio.wait_for(go(), 60)) == sorted([*sizes[:2], *sizes[3:], *([0] * 20)])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert all(isinstance(frame, dict) for frame in read(data))


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3), st.data())
def test_mutated_frames_are_refused_or_read(message: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(frames.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FrameError):
        assert all(isinstance(frame, dict) for frame in read(bytes(body)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid"),
        (b"[]", "is a list, not an object"),
        (b'"x"', "is a str"),
        (b"{} {}", "Extra data"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":' + b"9" * 401 + b"}", "401 digits"),
        (b'{"a":1,"a":2}', "the same key twice"),
        (b'{"a":"\xff"}', "can't decode"),
        (b'{"a":"\\ud800"}', "surrogates not allowed"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper than 128"),
        (b'{"a":' * 5_000, "nested deeper than 128"),
        (b"\xef\xbb\xbf{}", "not valid"),
        (b"{'a': 1}", "not valid"),
    ],
)
def test_json_is_held_to_its_letter(body: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        frames.decode(body)


KEYS = st.text(alphabet='a:" \\\n{', max_size=3)
BLANK = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r"])


@st.composite
def spelled(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON as a stranger may write it: keys that stand twice or look like the ends of others, blanks, escapes."""
    blank = [draw(BLANK) for _ in range(4)]
    kind = draw(st.integers(0, 5)) if depth else 5
    if kind <= 2:
        keys = draw(st.lists(KEYS | st.sampled_from(["a", "b"]), max_size=3))
        spell = (json.dumps, lambda key: json.dumps(key).replace("a", "\\u0061"))
        members = [
            f"{draw(st.sampled_from(spell))(key)}{draw(BLANK)}:{draw(BLANK)}{draw(spelled(depth - 1))}" for key in keys
        ]
        return f"{blank[0]}{{{blank[1]}{','.join(members)}}}{blank[2]}"
    if kind <= 4:
        return f"[{blank[0]}{','.join(draw(st.lists(spelled(depth - 1), max_size=3)))}]{blank[1]}"
    odd = [
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        "NaN",
        "1e999",
        "9" * 401,
        "-" + "9" * 400,
        "1.5",
        "7",
        "null",
        '"\\":"',
        '" :"',
    ]
    return draw(st.sampled_from(odd) | KEYS.map(json.dumps))


@given(spelled())
def test_a_key_that_stands_twice_is_seen_however_it_is_written(text: str) -> None:
    def strictly() -> Any:
        made = json.loads(
            text, object_pairs_hook=unique, parse_int=integer, parse_float=number, parse_constant=no_constant
        )
        json.dumps(made, ensure_ascii=False).encode()
        return made

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    def integer(digits: str) -> int:
        assert len(digits) <= 400
        return int(digits)

    def number(digits: str) -> float:
        assert abs(float(digits)) != float("inf")
        return float(digits)

    def no_constant(name: str) -> None:
        raise AssertionError(name)

    try:
        expected = strictly()
    except (AssertionError, ValueError):
        with pytest.raises(ValueError, match=r"."):
            parse(text)
    else:
        assert json.dumps(parse(text)) == json.dumps(expected)


def test_brackets_inside_strings_are_no_nesting() -> None:
    message = {"a": "[" * 1000 + '\\"{', "b": ["]"] * 200}
    assert frames.decode(json.dumps(message).encode()) == message


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameError, match="over the limit of 10,000"):
        read((10_001).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="4,294,967,295 bytes"):
        read(b"\xff\xff\xff\xff")


def test_a_stream_may_end_between_frames_only() -> None:
    whole = frames.encode({"a": 1})
    assert read(whole) == [{"a": 1}]
    for cut in range(1, len(whole)):
        with pytest.raises(FrameError, match="closed the channel inside"):
            read(whole[:cut])


@pytest.mark.parametrize(
    "body",
    [b'"' + b'\\"' * 1_000_000 + b"\\", b"[" * 2_000_000, b'{"a":[' + b"[]," * 600_000, b'{"a":"' + b"\\" * 2_000_001],
    ids=["quotes", "brackets", "lists", "backslashes"],
)
def test_no_frame_takes_long_to_refuse(body: bytes) -> None:
    with little_work(), pytest.raises(FrameError):
        frames.decode(body)


def test_nan_never_goes_out() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        frames.encode({"a": float("nan")})


@pytest.mark.parametrize("odd", [True, -1, 1.0, "3", 2**60, None, [3]])
def test_what_a_report_says_beside_its_exception_is_taken_in_its_form_alone(odd: Any) -> None:
    report = {"type": "IndexError", "message": "out of range", "items": odd, "hint": odd}
    error = as_program_error(report)
    assert error.items is None
    assert error.hint == (odd if isinstance(odd, str) else "")
    assert len(as_program_error(report | {"hint": "x" * 9_999}).hint) == 500


def test_a_service_hands_on_what_a_report_says_beside_its_exception() -> None:
    error = as_program_error({"type": "IndexError", "message": "out of range", "items": 3, "hint": "none", "line": 2})
    sent = messages.decode(messages.encode(messages.outcome_message(Outcome("raised", error=error))).decode())
    assert as_program_error(sent["error"]) == error
    older = {name: value for name, value in sent["error"].items() if name not in ("items", "hint")}
    assert as_program_error(older) == dataclasses.replace(error, items=None, hint="")
