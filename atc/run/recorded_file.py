"""Write a recording into two files, and read it back: a test of a few fixed lines, and its data.

``test_NAME.py`` is the same text for every run: nothing of a run becomes code. ``test_NAME.json`` holds the program,
its calls and its answer. Whoever edits it changes what a program in a jail is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atc._host.blocking import in_thread
from atc._host.files import open_plain, write_whole
from atc._host.redaction import Redactor
from atc._host.secret_detection import looks_secret
from atc._records.packing import json_text
from atc._records.recording import FORM, Recording
from atc._records.strict_json import parse
from atc.errors import EnvironmentProblem, UsageError
from atc.run.recording import recording_of
from atc.run.redacting import left, redact, secrets_in
from atc.run.replay import replay
from atc.sandboxes.contract import Sandbox
from atc.traces.stores.base import StoredRun
from atc.wording import replays

MAX_BYTES = 16 << 20
"""Bytes of a file with a recording."""
MAX_NAME, MAX_PLACES = 60, 10
"""Characters of a name, and places that a message names."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
TEST = '''\
"""A recorded run, made by `atc runs record`. The file beside this one, of the same name, holds what it replays as data.

`pytest` runs its program in ATC's sandbox and answers its calls from there: no tool, no model and no service is asked.
"""

pytest_plugins = ("atc.testing",)


def test_recorded_run(atc_replay):
    atc_replay(__file__)
'''
"""What stands in ``test_NAME.py``."""


@dataclass(frozen=True)
class RecordedFiles:
    """Names the two files of a recording."""

    test: Path
    data: Path


def files_of(folder: Path, name: str) -> RecordedFiles:
    """Return where a recording of this name goes.

    Raises:
        UsageError: the name is none.
    """
    plain = name.removeprefix("test_")
    if not _NAME.fullmatch(plain) or len(plain) > MAX_NAME:
        raise UsageError(
            f"{name!r} is no name for a test: take small letters, digits and _, a letter first, up to {MAX_NAME}"
        )
    return RecordedFiles(folder / f"test_{plain}.py", folder / f"test_{plain}.json")


def name_of(recorded: Recording) -> str:
    """Return a name for the test of a run: the first words of its task, or its id where they give none."""
    words = re.findall(r"[a-z0-9]+", recorded.task.lower()[:200])
    while words and (not words[0][0].isalpha() or words[0] == "test"):
        del words[0]
    name = ""
    for word in words[:6]:
        if len(name) + len(word) >= MAX_NAME // 2:
            break
        name += f"_{word}" if name else word
    return name or f"run_{re.sub(r'[^a-z0-9]', '_', recorded.run.lower())[: MAX_NAME // 2]}"


def redacted(recorded: Recording, ways: Sequence[str], redactor: Redactor) -> Recording:
    """Return a recording as it may be written: with stand-ins at these ways, and without anything like a credential.

    Args:
        recorded: the run.
        ways: as of :func:`atc.run.redacting.steps_of`.
        redactor: knows the credentials of the settings and the environment.

    Raises:
        UsageError: a way leads nowhere, or a credential, or what looks like one, stands there: the message says where.
    """
    before = recorded.model_dump(mode="json")
    for tool in before["tools"].values():
        if tool["schemas"] is not None and looks_secret(json_text(tool["schemas"]) or ""):
            tool["schemas"] = None  # an example of its document; the digest still tells whether they change
    made, named = redact(before, ways) if ways else (before, [])
    for place in left({"tools": made["tools"]}, before, ways):
        of_tool = place.removeprefix("/").replace("/", ".").split(".")[1]
        made["tools"][of_tool]["schemas"] = None
    if still := left(made, before, ways):
        raise UsageError(f"what --redact names still stands in {_shown(still)}: name these places too")
    if found := secrets_in(made, redactor):
        ways_out = [place for place in found if place.partition(".")[0] not in ("program", "linked", "tools")]
        more = " ".join(f"--redact {place}" for place in ways_out[:MAX_PLACES])
        raise UsageError(
            f"what may be a credential stands in {_shown(found)}, so nothing is written: "
            + (f"put a stand-in there with {more}" if more else "run it again with a program that has none in its text")
        )
    return Recording.model_validate_json(json.dumps(made)).model_copy(update={"replaced": (*recorded.replaced, *named)})


def _shown(places: Sequence[str]) -> str:
    more = f" and {len(places) - MAX_PLACES:,} more places" if len(places) > MAX_PLACES else ""
    return ", ".join(places[:MAX_PLACES]) + more


async def record(stored: StoredRun, *, ways: Sequence[str] = (), redactor: Redactor, sandbox: Sandbox) -> Recording:
    """Return a run as it may be written down: replayed once, so that its test holds, and without a credential.

    Where stand-ins take the place of values, the answer is what the program makes of these.

    Args:
        ways, redactor: as of :func:`redacted`.

    Raises:
        UsageError: it cannot be replayed, its replay is not what was recorded, or it holds a credential.
        TraceError: its trace is damaged.
        SandboxUnavailable: the isolation that was asked for cannot be had.
    """
    recorded = await in_thread(recording_of, stored)
    replayed = await replay(recorded, sandbox=sandbox)
    if not replayed.same:
        raise UsageError(
            f"run {stored.run_id} cannot be a test: its program does otherwise when it runs again.\n"
            + replays.differences(replayed.differences, replayed.left_out)
        )
    made = await asyncio.to_thread(redacted, recorded, ways, redactor)
    if ways:
        replayed = await replay(made, sandbox=sandbox)
        others = [each for each in replayed.differences if each.kind != "value"]
        if others:
            raise UsageError(
                "with these stand-ins the program does otherwise: redact other places, or none.\n"
                + replays.differences(others, replayed.left_out)
            )
        # What the run said of its answer is made of the values themselves, in other spellings, too.
        again = made.model_copy(update={"value": replayed.value, "said": ""})
        made = await asyncio.to_thread(redacted, again, (), redactor)
    began = "" if made.at is None else time.strftime(" of %Y-%m-%d", time.localtime(made.at))
    return made.model_copy(update={"about": replays.about(made, began)})


def write_recording(recorded: Recording, files: RecordedFiles, *, force: bool = False) -> None:
    """Write the two files, each whole or not at all; the data for its owner's eyes alone.

    Raises:
        UsageError: a file is there, or the recording is too large.
        EnvironmentProblem: they cannot be written.
    """
    for file in (files.test, files.data):
        if os.path.lexists(file) and (not force or file.is_dir()):
            raise UsageError(f"{file} is there already: give another name with --name, or replace it with --force")
    text = json.dumps(recorded.model_dump(mode="json"), indent=1) + "\n"
    if len(text) > MAX_BYTES:
        raise UsageError(f"the recording takes {len(text):,} bytes; the limit is {MAX_BYTES:,}: record a smaller run")
    try:
        parse(text.strip())
    except ValueError as error:
        raise UsageError(f"the recording cannot be read back ({error}): record a smaller run") from None
    try:
        files.data.parent.mkdir(parents=True, exist_ok=True)
        write_whole(files.data, text)
        write_whole(files.test, TEST, 0o666)
    except OSError as error:
        raise EnvironmentProblem(
            f"{files.data} cannot be written ({error.strerror})", fix="name another folder with -o"
        ) from None


def read_recording(file: Path) -> Recording:
    """Read a recording back. It may be anybody's: it is data, and its program runs in a jail alone.

    Args:
        file: ``test_NAME.json``, or the test beside it.

    Raises:
        UsageError: there is none, it is too large, or it is no recording; the message says where.
    """
    file = file.with_suffix(".json")
    try:
        text = _read(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}): `atc runs record` writes it") from None
    try:
        data: Any = parse(text.decode("utf-8").strip())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no recording: {str(error)[:200]}") from None
    if isinstance(data, dict) and isinstance(data.get("form"), int) and data["form"] > FORM:
        raise UsageError(f"{file} has form {data['form']}, and this version reads {FORM}: use a newer ATC")
    try:
        return Recording.model_validate_json(json.dumps(data))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"])) or "the whole"
        raise UsageError(f"{file} is no recording: {where}: {wrong['msg'][:200]}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no recording: {str(error)[:200]}") from None


def _read(file: Path) -> bytes:
    """Raises OSError for what cannot be read, or is no ordinary file, and UsageError for what is too large."""
    with open_plain(file) as opened:
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{file} has more than {MAX_BYTES:,} bytes, so it is not read")
    return content
