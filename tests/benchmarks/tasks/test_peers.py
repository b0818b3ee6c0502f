"""Other people's agents in the ruler: each in its own process, with its own ways, before the same model and tools."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem
from atc.schemas.protocol import Protocol
from benchmarks.peers.job import Tool, annotation, inline, plain, read_value
from benchmarks.systems import peer as peer_module
from benchmarks.systems.base import Answer
from benchmarks.systems.peer import PEERS_FORM, Peer
from tests.support.gateway import WEATHER, World, a_try, replies, solved

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

VARIABLE = "ATC_PEER_PYTHON_FAKE"
FAKE = Peer("fake", "a peer for tests", "fake", "fake-agent")
BEGIN = 'import json, os, subprocess, sys, time\nprint(json.dumps({"ready": "fake 1.0"}), flush=True)\n'


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a peer of a few lines of Python."""

    def make(source: str) -> None:
        python = tmp_path / "python"
        python.write_text(f"#!{sys.executable}\n{textwrap.dedent(source)}")
        python.chmod(0o755)
        monkeypatch.setenv(VARIABLE, str(python))

    return make


Fake = Callable[[str], None]


# Whatever a peer does -------------------------------------------------------------------------------------------------


def test_a_peer_is_told_the_task_the_model_and_the_tools_and_answers(fake: Fake) -> None:
    fake(BEGIN + 'print(json.dumps({"value": [json.loads(input()), sys.argv[1:]], "steps": 2, "crashes": 1}))')
    answer = solved(FAKE, replies())
    assert (answer.ended, answer.programs, answer.failed) == ("answered", 2, 1)
    job, arguments = answer.value
    assert arguments == ["-m", "benchmarks.peers", "fake", ""]
    assert job["task"] == f"How warm is Rome?\n\n{PEERS_FORM}"
    assert (job["model"], job["steps"]) == ("tiny", 12)
    assert job["base_url"].endswith("/v1")
    assert job["tools_url"].endswith("/tools")
    weather, route = job["tools"]
    assert (weather["name"], weather["description"], weather["returns"]) == ("weather", "weather it.", WEATHER)
    assert list(weather["parameters"]["properties"]) == ["city", "unit"]
    assert route["parameters"]["required"] == ["from_", "to"], "names that Python can write"


def test_a_version_is_the_packages_and_a_digest_of_what_drives_them(fake: Fake) -> None:
    fake(BEGIN)
    peer = Peer("fake", "", "fake", "fake-agent")
    version = asyncio.run(peer.version())
    assert version.startswith("fake 1.0 (")
    fake("raise SystemExit")
    assert asyncio.run(peer.version()) == version, "it is asked once"


def test_what_a_peer_takes_to_load_is_not_of_the_try(fake: Fake, tmp_path: Path) -> None:
    note = tmp_path / "loaded"
    load = f"import time\nopen({str(note)!r}, 'w').write(str(time.perf_counter()))\n"
    fake(load + BEGIN + 'input()\nprint(json.dumps({"value": 1}))')

    def see(world: World) -> None:
        assert world.session.began > float(note.read_text()), "one clock for all processes"

    assert solved(FAKE, replies(), see=see).value == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"value": 3, "gave_up": True}, ("answered", 3, "")),
        ({"error": "Boom: it broke"}, ("crash", None, "Boom: it broke")),
        ({"error": "no more steps", "gave_up": True}, ("unsolved", None, "no more steps")),
    ],
)
def test_how_a_peer_ended_is_told(fake: Fake, said: dict[str, Any], expected: tuple[str, Any, str]) -> None:
    fake(f"{BEGIN}input()\nprint(json.dumps({said!r}))")
    answer = solved(FAKE, replies())
    assert (answer.ended, answer.value, answer.error) == expected


def test_an_error_over_the_budget_is_the_budgets(fake: Fake) -> None:
    fake(f"{BEGIN}input()\nprint(json.dumps({{'error': 'BadRequestError'}}))")

    async def main() -> Answer:
        async with a_try(replies()) as world:
            world.spent.over = "its 12 model calls are used up"
            return await FAKE.solve(world.job())

    assert asyncio.run(main()).ended == "budget"


def test_a_peer_that_dies_is_a_crash_with_its_last_words(fake: Fake) -> None:
    fake(f"{BEGIN}input()\nraise SystemExit('out of luck')")
    answer = solved(FAKE, replies())
    assert answer.ended == "crash"
    assert "fake 1.0 ended without an answer" in answer.error
    assert "out of luck" in answer.error


def test_a_peer_that_dies_before_it_is_asked_is_a_crash(fake: Fake) -> None:
    fake(f"{BEGIN}os.close(0)\ntime.sleep(0.1)\nraise SystemExit('too early')")
    answer = solved(FAKE, replies())
    assert (answer.ended, "too early" in answer.error) == ("crash", True)


@pytest.mark.parametrize("said", ["well …", "[1]", '{"value": ', ""])
def test_an_answer_that_is_no_json_object_is_a_crash(fake: Fake, said: str) -> None:
    fake(f"{BEGIN}input()\nprint({said!r})")
    assert solved(FAKE, replies()).ended == "crash"


def test_a_peer_may_say_much_on_stderr(fake: Fake) -> None:
    fake(f"{BEGIN}input()\nsys.stderr.write('la ' * 1_000_000)\nprint(json.dumps({{'value': 1}}))")
    assert solved(FAKE, replies()).value == 1


def test_a_peer_has_no_keys_and_an_empty_folder_that_goes_with_it(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    lines = "input()\nopen('mine', 'w')\nprint(json.dumps({'value': [dict(os.environ), os.getcwd(), os.listdir()]}))"
    fake(BEGIN + lines)
    environment, folder, files = solved(FAKE, replies()).value
    assert "secret" not in environment.values()
    assert files == ["mine"]
    assert Path(folder).parent == Path(tempfile.gettempdir())
    assert not Path(folder).exists()


def test_a_peer_that_hangs_is_ended_with_all_that_it_started(fake: Fake, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    fake(f"""{BEGIN}
input()
child = subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(300)"])
open({str(note)!r} + "-", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename({str(note)!r} + "-", {str(note)!r})
time.sleep(300)
""")

    async def main() -> None:
        async with a_try(replies()) as world:
            trying = asyncio.create_task(FAKE.solve(world.job()))
            await asyncio.to_thread(awaited, note.exists)
            trying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await trying

    asyncio.run(main())
    for pid in map(int, note.read_text().split()):
        awaited(lambda pid=pid: gone(pid))  # type: ignore[misc]


def awaited(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


# Peers that are not there ---------------------------------------------------------------------------------------------


def refused(peer: Peer) -> str:
    """What is said of a peer that is not there, whether its version is asked for or it is to solve a task."""
    with pytest.raises(EnvironmentProblem) as caught:
        asyncio.run(peer.version())
    with pytest.raises(EnvironmentProblem) as solving:
        solved(peer, replies())
    assert str(solving.value) == str(caught.value)
    return str(caught.value)


def test_a_peer_that_is_not_installed_is_named_with_the_way_to_get_it(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(f"import os, sys\nos.execv({sys.executable!r}, ['python', '-S', *sys.argv[1:]])")  # without its packages
    monkeypatch.setenv("ATC_PEER_PYTHON_RUN_SMOLAGENTS", os.environ[VARIABLE])
    said = refused(Peer("smolagents-code", "", "run_smolagents", "'smolagents[openai]'", "code"))
    assert "smolagents-code is not installed (it lacks smolagents)" in said
    assert "`pip install 'smolagents[openai]'`" in said
    assert "ATC_PEER_PYTHON_RUN_SMOLAGENTS" in said


@pytest.mark.parametrize("said", ["hello", '{"value": 1}', ""])
def test_a_peer_that_does_not_say_that_it_is_ready_is_not_installed(fake: Fake, said: str) -> None:
    fake(f"print({said!r})")
    assert "fake is not installed (it said nothing)" in refused(FAKE)


def test_a_python_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/no/such/python")
    assert refused(FAKE) == f"{VARIABLE}=/no/such/python cannot be started: No such file or directory"


def test_the_environment_of_make_peers_is_found(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake('print(\'{"ready": "fake 2"}\', flush=True)\ninput()')
    monkeypatch.delenv(VARIABLE)
    made = tmp_path / ".venv-frameworks" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.symlink_to(tmp_path / "python")
    monkeypatch.setattr(peer_module, "ROOT", tmp_path)
    assert asyncio.run(Peer("fake", "", "fake", "fake").version()).startswith("fake 2 ")


# What the scripts share -----------------------------------------------------------------------------------------------


def test_nothing_but_the_answer_reaches_stdout_and_nobody_waits_for_input(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "run_noisy.py").write_text(
        "import os\nprint('a banner')\nos.system('echo another')\n"
        "def packages(mode): return ('pydantic',)\n"
        "def solve(job, said):\n"
        "    print('la'); os.system('echo lala'); said.steps = 2; said.program = job.tools[0].name\n"
        "    try: input()\n"
        "    except EOFError: said.value = {1: (2.5, None, {'x'}), 'job': job.task}\n"
    )
    fake(
        "import benchmarks.peers, sys\nfrom benchmarks.peers.__main__ import main\n"
        f"benchmarks.peers.__path__.append({str(tmp_path)!r})\nmain('run_noisy', sys.argv[-1])"
    )
    answer = solved(FAKE, replies())
    assert answer.value == {"1": [2.5, None, ["x"]], "job": f"How warm is Rome?\n\n{PEERS_FORM}"}
    assert (answer.programs, answer.program) == (2, "weather")


def test_an_exception_of_a_peer_is_its_error_with_what_is_known(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "run_broken.py").write_text(
        "def packages(mode): return ('pydantic',)\ndef solve(job, said):\n    said.steps = 3\n    1 / 0\n"
    )
    fake(
        "import benchmarks.peers, sys\nfrom benchmarks.peers.__main__ import main\n"
        f"benchmarks.peers.__path__.append({str(tmp_path)!r})\nmain('run_broken', sys.argv[-1])"
    )
    answer = solved(FAKE, replies())
    assert (answer.ended, answer.error, answer.programs) == ("crash", "ZeroDivisionError: division by zero", 3)


def the_tool(world: World, name: str) -> Tool:
    protocol = world.session.episode.tools[name].protocol
    url = f"{world.address}/tools/{name}"
    return Tool(name, protocol.description, protocol.parameters, protocol.returns, url)


def trying(act: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with a_try(replies()) as world:
            await act(world)

    asyncio.run(main())


def test_a_peer_is_shown_nothing_that_atc_notes_for_itself() -> None:
    seen = {"type": "object", "properties": {"day": {"type": "string", "x-atc-evidence": {"seen": 1, "of": 2}}}}
    listed = {"type": "array", "items": {"anyOf": [seen, {"type": "number", "x-atc-range": [1, 2]}]}}
    shown = peer_module.document(Protocol(name="days", description="Days.", parameters=seen, returns=listed))
    assert "x-atc" not in json.dumps(shown)
    assert shown["returns"]["items"]["anyOf"][0]["properties"] == {"day": {"type": "string"}}
    assert shown["parameters"]["properties"] == {"day": {"type": "string"}}


def test_a_tool_as_a_function_has_a_signature_and_a_docstring() -> None:
    async def act(world: World) -> None:
        function = the_tool(world, "weather").function()
        signature = str(inspect.signature(function)).replace("typing.", "")
        assert signature == "(city: str, unit: Optional[Literal['c', 'f']] = None) -> dict"
        assert function.__name__ == "weather"
        told = function.__doc__ or ""
        assert told.startswith("weather it.\n\nArgs:\n    city: Which city.\n    unit: The scale. {")
        assert '"degrees": {"type": "integer"}' in told

    trying(act)


def test_a_tool_as_a_function_calls_it() -> None:
    async def act(world: World) -> None:
        weather = the_tool(world, "weather").function()
        assert await asyncio.to_thread(weather, "Rome", unit=None) == {"city": "Rome", "degrees": 21}
        with pytest.raises(RuntimeError, match=r"^there is no city Nowhere$"):
            await asyncio.to_thread(weather, city="Nowhere")
        with pytest.raises(TypeError, match="unexpected keyword argument 'town'"):
            weather("Rome", town="Rome")
        with pytest.raises(TypeError, match="not JSON serializable"):
            weather(city={"Rome"})
        route = the_tool(world, "route")
        await asyncio.to_thread(route.call, {"from": "a", "to": "b", "via": None})
        assert world.calls[0] == ("weather", {"city": "Rome"}), "what may be left out is, where the tool takes no null"
        assert world.calls[2] == ("route", {"from": "a", "to": "b", "via": None})

    trying(act)


def test_schemas_become_types_as_far_as_types_go() -> None:
    assert annotation({"type": "array", "items": {"type": "number"}}) == list[float]
    assert annotation({"anyOf": [{"type": "integer"}, {"type": "null"}]}) == int | None
    assert annotation({"type": ["null", "string"]}) == str | None
    assert annotation({"anyOf": [{"type": "integer"}, {}]}) is Any
    definitions = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    inlined = inline({"type": "array", "items": {"$ref": "#/$defs/Node"}, "$defs": definitions}, definitions)
    assert inlined["items"]["properties"]["next"]["type"] == "object"
    assert "$ref" not in str(inlined)


def test_an_answer_in_words_is_read_as_our_own_systems_read_it() -> None:
    assert [read_value(text) for text in ("21", '"a"', "['a', 1]", "```json\n[1]\n```", "about 21")] == [
        21,
        "a",
        ["a", 1],
        [1],
        "about 21",
    ]
    assert plain({"a": (1, True, None), "b": {2.5}, "c": Path("x")}) == {"a": [1, True, None], "b": [2.5], "c": "x"}
