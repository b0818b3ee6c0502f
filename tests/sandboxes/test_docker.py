"""The docker sandbox: programs in a hardened container, walls that are seen to stand, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Agent
from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.errors import SandboxUnavailable
from atc.models.fake import FakeModel
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.docker import engine as docker_engine
from atc.sandboxes.docker.driver import WAITING, DockerSandbox
from atc.sandboxes.docker.engine import Hardening
from atc.sandboxes.process.zygote import Jail, Zygote
from tests.support.docker import containers, echo, needs_image, refusal, run_in

Options = dict[str, Any]


# -- really, in containers -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> None:
    needs_image()


@pytest.fixture
def nothing_stays(engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """After the test no container of this process is left, and no folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert containers() == []
    assert list(tmp_path.glob("atc-*")) == []


needs_engine = [pytest.mark.slow, pytest.mark.usefixtures("nothing_stays")]


def slow(test: Callable[..., None]) -> Callable[..., None]:
    for mark in needs_engine:
        test = mark(test)
    return test


@slow
@pytest.mark.parametrize("strict", [False, True])
def test_programs_run_and_their_calls_come_back(strict: bool) -> None:
    program = "import os\nprint('ü')\nanswer = [f(x={n})['x'], dict(os.environ), os.getuid()]"
    outcomes = run_in(DockerSandbox(strict=strict), *(program.format(n=n) for n in range(6)))
    assert [outcome.value for outcome in outcomes] == [[n, {}, 65534] for n in range(6)]
    assert {(outcome.isolation, outcome.stdout) for outcome in outcomes} == {("L", "ü\n")}


@slow
def test_an_agent_runs_in_it_by_name() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one
            b: other
        """
        return a + b

    model = FakeModel(["```python\nanswer = add(a=40, b=2)\n```"])
    with Agent([add], model=model, sandbox="docker", approve="always", sentence=False) as agent:
        result = agent.run("What is 40 + 2?")
    assert (result.unwrap(), result.isolation) == (42, "docker/L")


@slow
@pytest.mark.parametrize(
    ("program", "limits", "kind", "words"),
    [
        ("while True: pass", {"wall_s": 0.5}, "limit", "ran longer than 0.5 s"),
        ("while True: pass", {"cpu_s": 1}, "limit", "more than 1 s of processor time"),
        ("x = bytearray(1 << 30)", {"memory_bytes": 256 << 20}, "raised", "MemoryError"),
        ("print('x' * 3_000_000)", {"output_bytes": 1000}, "finished", ""),
        ("for n in range(9): f(x=n)", {"calls": 5}, "limit", "more than 5 tool calls"),
        ("import os\nos._exit(0)", {}, "killed", "before it reported an answer"),
    ],
)
def test_limits_hold(program: str, limits: dict[str, Any], kind: str, words: str) -> None:
    (outcome,) = run_in(DockerSandbox(Limits(**{"wall_s": 60.0, **limits})), program)
    assert outcome.kind == kind, outcome
    assert words in f"{outcome.detail} {outcome.error.type if outcome.error else ''}"
    assert len(outcome.stdout) < 1100


@slow
def test_a_program_reaches_nothing() -> None:
    program = """
import os, socket
def tried(what):
    try:
        return repr(what())
    except OSError as error:
        return type(error).__name__
answer = {name: tried(what) for name, what in {
    "passwd": lambda: open("/etc/passwd").read(), "proc": lambda: open("/proc/1/environ").read(),
    "write": lambda: open("/tmp/x", "w"), "shared": lambda: os.listdir("/run/atc"),
    "inet": lambda: socket.socket(), "fork": os.fork, "kill": lambda: os.kill(1, 9),
}.items()}
"""
    (outcome,) = run_in(DockerSandbox(), program)
    refused = {"PermissionError", "BlockingIOError"}
    assert isinstance(outcome.value, dict)
    assert {name: said for name, said in outcome.value.items() if said not in refused} == {"write": "OSError"}


_IN_A_NAMESPACE = """
import asyncio, os
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.docker.driver import DockerSandbox

async def none(request): raise AssertionError

async def main():
    async with DockerSandbox() as sandbox:
        endless = Job("while True: pass", {}, Limits(wall_s=0.3))
        ended = await asyncio.gather(sandbox.run(Job("answer = 1", {}), none), sandbox.run(endless, none))
        print(os.getpid(), [(each.kind, each.value) for each in ended], sandbox._pool._current.running <= 3)

asyncio.run(main())
"""


@slow
def test_a_host_in_a_process_namespace_of_its_own_ends_programs_by_their_numbers() -> None:
    """The kernel refuses to signal a process that the host's namespace does not hold (EINVAL): its parent does it."""
    if os.getuid() != 0:
        pytest.skip("only root makes a process namespace without a user namespace")
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", _IN_A_NAMESPACE]
    ran = subprocess.run(own, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout == "1 [('finished', 1), ('limit', None)] True\n", ran.stderr


def _without(key: str) -> Callable[[Options], None]:
    return lambda options: options.pop(key)


def _set(**values: Any) -> Callable[[Options], None]:
    return lambda options: options.update(values)


def _only_seccomp(options: Options) -> None:
    options["security_opt"] = [each for each in options["security_opt"] if each.startswith("seccomp")]


def _with_seccomp(*profile: str) -> Callable[[Options], None]:
    return _set(security_opt=["no-new-privileges:true", *profile])


def _without_ulimit(name: str) -> Callable[[Options], None]:
    def change(options: Options) -> None:
        options["ulimits"] = [each for each in options["ulimits"] if each["Name"] != name]

    return change


@slow
@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (_set(network_mode="host"), "--network none"),
        (_without("read_only"), "--read-only"),
        (_without("cap_drop"), "--cap-drop ALL"),
        (_only_seccomp, "--security-opt no-new-privileges"),
        (_with_seccomp(), "--security-opt seccomp"),
        (_with_seccomp("seccomp=unconfined"), "--security-opt seccomp"),
        (_without("pids_limit"), "--pids-limit"),
        (_set(mem_limit=64 << 30, memswap_limit=-1), "--memory"),
        (_set(memswap_limit=-1), "--memory-swap"),
        (_without("nano_cpus"), "--cpus"),
        (_without("user"), "--user"),
        (_set(user="0:0"), "--user"),
        (_without("tmpfs"), "--tmpfs /tmp"),
        (_set(tmpfs={"/tmp": "rw,exec,size=16m"}), "--tmpfs /tmp"),
        (_set(tmpfs={"/tmp": "rw,noexec,size=1g"}), "--tmpfs /tmp"),
        (_without("ipc_mode"), "--ipc none"),
        (_without_ulimit("core"), "--ulimit core"),
        (_without_ulimit("nofile"), "--ulimit nofile"),
    ],
)
def test_a_wall_that_is_left_out_is_seen_from_inside_and_refused(
    change: Callable[[Options], None], flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Hardening.create_options

    def options(walls: Hardening) -> Options:
        made = real(walls)
        change(made)
        return made

    monkeypatch.setattr(Hardening, "create_options", options)
    with pytest.raises(SandboxUnavailable, match=f"started without .*`{flag}`"):
        run_in(DockerSandbox(), "answer = 1")


@slow
def test_an_image_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.sandboxes.docker.driver.sandbox_digest", lambda: "another")
    assert "another version of the sandbox than this installation: `make image`" in refusal()


@slow
def test_an_image_that_is_not_ours_is_refused() -> None:
    assert "its container ended" in refusal(image="python:3.11-slim")
    assert "the image atc-nowhere is missing: `make image` builds it" in refusal(image="atc-nowhere")


@slow
def test_a_package_that_the_image_lacks_is_named() -> None:
    assert "the package 'torch' cannot be preloaded" in refusal(preload=["torch"])


@slow
def test_a_package_of_the_image_can_be_used() -> None:
    (outcome,) = run_in(DockerSandbox(preload=["yaml"]), "import yaml\nanswer = yaml.safe_load('a: [1, 2]')")
    assert outcome.value == {"a": [1, 2]}, outcome


@slow
def test_strict_mode_gives_every_program_a_container_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    zygotes: list[Zygote] = []
    real = Zygote.spawn

    def spawn(zygote: Zygote) -> Jail:
        zygotes.append(zygote)
        return real(zygote)

    monkeypatch.setattr(Zygote, "spawn", spawn)

    async def go() -> None:
        async with DockerSandbox(strict=True) as sandbox:
            for n in range(5):
                assert (await sandbox.run(Job(f"answer = {n}", {}), echo)).value == n
            assert len(containers()) <= WAITING + 2  # those that served have gone, or are going

    asyncio.run(go())
    assert len(zygotes) >= 5
    assert {zygote.spawned for zygote in zygotes} == {1}


@slow
@pytest.mark.parametrize("strict", [False, True])
def test_a_container_that_is_killed_ends_its_programs_and_the_next_one_runs(strict: bool) -> None:
    import docker

    async def go() -> tuple[Outcome, Outcome]:
        async with DockerSandbox(strict=strict) as sandbox:
            calling = asyncio.Event()

            async def wait(request: CallRequest) -> CallReply:
                calling.set()
                await asyncio.sleep(120)
                return CallReply()

            work = asyncio.create_task(sandbox.run(Job("f()", {"f": ()}), wait))
            await asyncio.wait_for(calling.wait(), 100)
            client = docker.from_env()
            for container in containers():
                await asyncio.to_thread(client.api.kill, container)
            client.close()
            first = await asyncio.wait_for(work, 100)
            return first, await asyncio.wait_for(sandbox.run(Job("answer = 2", {}), echo), 100)

    first, second = asyncio.run(go())
    assert first.kind == "killed"
    assert second.value == 2


_HOST = """
import asyncio, sys
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.contract import CallReply, Job
async def call(request):
    print("running", flush=True)
    await asyncio.sleep(60)
async def go():
    async with DockerSandbox(strict=%r) as sandbox:
        await sandbox.run(Job("f()\\nwhile True: pass", {"f": ()}), call)
asyncio.run(go())
"""


@slow
@pytest.mark.parametrize("strict", [False, True])
def test_a_host_that_is_killed_leaves_no_container(strict: bool) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST % strict], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout is not None
    with host:
        assert host.stdout.readline() == b"running\n"
        assert containers(host.pid)
        host.send_signal(signal.SIGKILL)
        host.wait(60)
    deadline = time.monotonic() + 60
    while containers(host.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert containers(host.pid) == []


@slow
def test_containers_of_dead_hosts_are_reaped_and_those_of_living_ones_are_not() -> None:
    import docker

    gone = subprocess.Popen(["true"])
    own = docker_engine.host_label()
    gone.wait()
    dead = own.replace(f":{os.getpid()}:", f":{gone.pid}:")
    foreign = f"another-boot:{dead.partition(':')[2]}"
    reused = own.rpartition(":")[0] + ":1"
    client = docker.from_env()
    made: dict[str, str] = {}
    try:
        for label in (own, dead, foreign, reused):
            made[label] = client.api.create_container("atc-sandbox", labels={docker_engine.LABEL: label})["Id"]
        run_in(DockerSandbox(), "answer = 1")
        left = {each["Id"] for each in client.api.containers(all=True, filters={"label": docker_engine.LABEL})}
        assert {label for label, container in made.items() if container in left} == {own, foreign}
    finally:
        for container in made.values():
            with contextlib.suppress(docker.errors.NotFound):
                client.api.remove_container(container)
        client.close()


@slow
def test_a_run_that_is_cancelled_leaves_nothing() -> None:
    async def go() -> None:
        for strict in (False, True):
            async with DockerSandbox(strict=strict) as sandbox:
                for pause in (0, 0.1, 0.5):
                    work = asyncio.create_task(sandbox.run(Job("while True: pass", {}), echo))
                    await asyncio.sleep(pause)
                    work.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await work

    asyncio.run(go())


_NOBODY = """
import asyncio, concurrent.futures.thread, os
from atc.sandboxes.docker import driver as docker
from atc.sandboxes.docker import engine
from atc.sandboxes.contract import Job
asyncio.run(docker.DockerSandbox().isolation())  # as root, it loads what an ordinary user may not be able to read
os.setgroups([{group}]); os.setgid(12345); os.setuid(12345)
async def go():
    async with docker.DockerSandbox() as sandbox:
        return await sandbox.run(Job("import os; answer = os.getuid()", {{}}), print)
outcome = asyncio.run(go())
print(os.getuid(), outcome.isolation, outcome.value)
"""


@slow
def test_it_works_for_an_ordinary_user_who_may_use_the_engine() -> None:
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    socket = Path(os.environ.get("DOCKER_HOST", "/var/run/docker.sock").removeprefix("unix://"))
    script = _NOBODY.format(group=socket.stat().st_gid)
    environment = {**os.environ, "TMPDIR": "/tmp"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "12345 L 65534\n", ran.stderr
