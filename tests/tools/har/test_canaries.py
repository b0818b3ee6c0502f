"""Nothing of a recording but names of keys is shown: each place of one holds a value that is found nowhere else after.

The service that runs answers with other values, so that what is found came out of the recording.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, ApprovalRequest, FakeModel, Toolset
from atc.calls.approval import question_of
from atc.errors import AtcError, ToolError
from tests.support.cli import atc
from tests.support.openapi import Answer, Server, running_server
from tests.support.otel import Recorded as Telemetry
from tests.support.recordings import call, page, write

TOKENS = (
    "sidc4n4ry00a1b2c3d4e5f6", "bearc4n4ry0a9b8c7d6e5f4a3", "apikc4n4ry1q2w3e4r5t6y7u8", "csrfc4n4ry5t4r3e2w1q0a9s8",
    "qkeyc4n4ry7y6u5i4o3p2a1s", "setcc4n4ry3d4f5g6h7j8k9l", "pathc4n4ry9z8x7c6v5b4n3m2", "bodyc4n4ry2m3n4b5v6c7x8z",
    "answc4n4ry6h5g4f3d2s1a0q", "refrc4n4ry4k5j6h7g8f9d0s", "redic4n4ry8p7o6i5u4y3t2r", "formc4n4ry0l9k8j7h6g5f4d",
)  # fmt: skip
"""Credentials, one for each place."""
WORDS = (
    "quillfeather", "marblewick", "thistledown", "zebulon", "ottoline", "peregrina", "wolfgangamadeus",
    "hollowbrook", "tamsin", "Marrow Lane 17", "ottoline@thornbury.example", "+49 171 5550199", "4929 7111 2222 3334",
    "731904458", "1979-02-28", "Dear Tamsin, the parcel is lost", "DE89370400440532013000", "99182.37",
)  # fmt: skip
"""What a user would not have shown: names, addresses, numbers, words."""
SID, BEARER, API_KEY, CSRF, QUERY_KEY, SET, PATH, BODY, ANSWER, REFERRER, REDIRECT, FORM = TOKENS


def entries(url: str) -> list[dict[str, Any]]:
    """A visit to a service, with a canary in each place that a recording has."""
    sent = {
        "cookie": f"sid={SID}; lang=thistledown",
        "authorization": f"Bearer {BEARER}",
        "x-api-key": API_KEY,
        "x-csrf-token": CSRF,
        "x-client": "zebulon",
        "referer": f"{url}/reset/{REFERRER}?user=quillfeather",
    }
    person = {
        "id": 731904458,
        "login": "quillfeather",
        "name": "Ottoline Marblewick marblewick",
        "mail": "ottoline@thornbury.example",
        "phone": "+49 171 5550199",
        "card": "4929 7111 2222 3334",
        "born": "1979-02-28",
        "iban": "DE89370400440532013000",
        "token": ANSWER,
        "by_user": {"quillfeather": 1, "peregrina": 2, "tamsin": 3, "ottoline": 4},
        "notes": [{"text": "Dear Tamsin, the parcel is lost", "owner": "hollowbrook"}] * 4,
        "balance": 99182.37,
    }
    note = {"text": "Dear Tamsin, the parcel is lost", "secret": BODY, "to": "peregrina", "street": "Marrow Lane 17"}
    later = {**sent, "cookie": f"sid={SET}; lang=thistledown"}
    new_sid = (f"sid={SET}; Path=/; HttpOnly",)
    search = f"?key={QUERY_KEY}&q=wolfgangamadeus&owner=hollowbrook"
    return [
        page(f"{url}/", headers=sent, comment="zebulon"),
        call(f"{url}/api/people/quillfeather", person, headers=sent, set_cookies=new_sid),
        call(f"{url}/api/people/peregrina", {**person, "login": "peregrina"}, headers=later),
        call(f"{url}/api/people/{PATH}/notes{search}", [person], headers=later),
        call(f"{url}/api/notes", {"made": person}, method="POST", status=201, sent=note, headers=later),
        call(f"{url}/api/notes", {"error": f"tamsin {ANSWER}"}, method="POST", status=422, sent=note, headers=later),
        call(f"{url}/api/session", person, method="POST", form={"user": "tamsin", "password": FORM}, headers=later),
        call(f"{url}/old", None, status=302, headers={**later, "x-next": REDIRECT}),
        *(call(f"{url}/api/tags?owner=hollowbrook", [{"tag": "thistledown"}] * 5, headers=later) for _ in range(4)),
    ]


@pytest.fixture
def service() -> Iterator[Server]:
    with running_server() as server:
        server.answer = Answer(json.dumps({"id": 5, "login": "somebody", "notes": []}).encode())
        yield server


@pytest.fixture
def recording(service: Server, tmp_path: Path) -> Path:
    return write(tmp_path / "visit.har", *entries(service.url))


def found_in(*texts: object) -> list[str]:
    """The canaries in some texts, whatever the case."""
    whole = "\n".join(map(str, texts)).lower()
    return [each for each in (*TOKENS, *WORDS) if each.lower() in whole]


def files_under(*folders: Path) -> list[str]:
    """The names and contents of all files, but the recording itself."""
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".har"]
    return [f"{path} {path.read_bytes().decode('utf-8', 'replace')}" for path in paths]


def test_no_protocol_and_no_repr_has_one(recording: Path) -> None:
    assert len(found_in(recording.read_text())) == len(TOKENS) + len(WORDS)
    tools = Toolset.from_har(recording, session="memory")
    assert len(tools) >= 4
    assert not tools.missing_credentials()
    shown = [tool.protocol.model_dump_json() for tool in tools.values()]
    assert not found_in(*shown, repr(tools), [tool.transport for tool in tools.values()], [*tools])


@pytest.mark.slow
def test_no_command_shows_one(recording: Path, tmp_path: Path) -> None:
    source, given = f"har:{recording}", ("--openapi", "session=memory")
    listed = atc("tools", "list", "-t", source, *given, "--json")
    names = [each["name"] for each in json.loads(listed.stdout)]
    ran = [listed, *(atc("tools", "show", name, "-t", source, *given) for name in names)]
    for words in (("tools", "list"), ("tools", "stub")):
        ran.append(atc(*words, source, *given))
    ran.append(atc("probe", "-t", source, *given, "-o", str(tmp_path / "docs"), "--set", "max_tries=0", "--json"))
    assert not found_in(*(f"{each.stdout}{each.stderr}" for each in ran), *files_under(tmp_path))
    assert list((tmp_path / "docs").iterdir())


def test_no_run_leaves_one_anywhere(
    recording: Path, service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = Telemetry()
    monkeypatch.setattr("atc.traces.telemetry.telemetry.providers", lambda: telemetry.providers)
    tools = Toolset.from_har(recording, session="keep")
    reads = [name for name, tool in tools.items() if tool.protocol.effect.value == "read"]
    (write_name,) = (name for name in tools if name.startswith("post") and name.endswith("notes"))
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    echoed = {"id": 5, "said": SET, "header": f"Bearer {BEARER}"}
    service.answers["/api/notes"] = Answer(json.dumps(echoed).encode())
    program = f"```python\nanswer = [{write_name}(text='hello'), get_tags(owner='me')]\n```"
    model = FakeModel([program])
    with Agent(
        tools, model=model, approve=approve, runs_dir=tmp_path / "runs", catalogue=tmp_path / "catalogue", otel=True
    ) as agent:
        result = agent.run("Write hello.")
    assert result.status == "answered"
    assert f"sid={SET}" in service.seen[0].headers["cookie"]
    assert service.seen[0].headers["authorization"] == f"Bearer {BEARER}"
    spans = [f"{span.name} {dict(span.attributes or {})} {span.events}" for span in telemetry.spans]
    assert spans
    assert reads
    questions = [[*question_of(request)] for request in asked]
    assert questions
    assert not found_in(*files_under(tmp_path), model.prompts, spans, telemetry.metrics(), questions, asked, result)


@pytest.mark.parametrize("damage", range(6), ids=str)
def test_no_message_about_a_broken_recording_shows_one(
    recording: Path, damage: int, caplog: pytest.LogCaptureFixture
) -> None:
    text = recording.read_text()
    har = json.loads(text)
    entries = har["log"]["entries"]
    if damage == 0:
        text = text[: len(text) // 2]
    elif damage == 1:
        text = json.dumps({"log": {"entries": SID, "version": WORDS}})
    elif damage == 2:
        text = json.dumps({"log": {"entries": [{"request": {"method": SID, "url": PATH}, "response": BODY}] * 3}})
    elif damage == 3:
        for each in entries:
            each["request"]["headers"] = [{"name": SID, "value": [SID]}, SID, None]
        text = json.dumps(har)
    elif damage == 4:
        for each in entries:
            each["response"]["status"], each["startedDateTime"] = ANSWER, ANSWER
        text = json.dumps(har)
    else:
        for each in entries:
            each["request"]["url"] = f"https://{SID}:{PATH}@[quillfeather]/:{ANSWER}"
        text = json.dumps(har)
    recording.write_text(text)
    said: list[object] = []
    try:
        tools = Toolset.from_har(recording, session="memory")
        said += [tools, *(tool.protocol.model_dump_json() for tool in tools.values())]
    except AtcError as error:
        said.append(error)
    assert not found_in(*said, caplog.text)


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_crash_with_its_locals_shows_no_login(recording: Path, service: Server, status: int) -> None:
    service.answer = Answer(b"[" if status == 200 else b"no", status=status)
    transport = Toolset.from_har(recording, session="memory")["get_tags"].transport
    assert transport is not None
    with pytest.raises(ToolError) as caught:
        asyncio.run(transport({"owner": "me"}))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = "".join(line for line in told.format() if "tests/" not in line)
    assert not [each for each in TOKENS if each in ours]
