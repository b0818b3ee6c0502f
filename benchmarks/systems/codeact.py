"""CodeAct (Wang et al. 2024): code, what it printed, more code; variables stay. A small baseline of our own.

All steps of a try run in one jail: a program there asks for the next step as if it were a tool.
"""

from __future__ import annotations

from atc.calls.contract import CallReply, CallRequest
from atc.errors import ModelError, ModelUnavailable, ToolError
from atc.models.base import Message, Model
from atc.programs.extract import extract
from atc.sandboxes.contract import Job as SandboxJob
from atc.sandboxes.contract import Limits, Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.parameters import signatures
from atc.tools.stubs import render_stub
from benchmarks.systems.base import Answer, Job, System
from benchmarks.systems.common import MAX_STEPS, ask, called, digest, prompt, read_value, shown

NEXT = "next_step_of_this_session"
SESSION = f"""\
import contextlib, io, traceback
class _Done(BaseException): pass
def final_answer(value):
    global answer
    answer = value
    raise _Done
_said, _failed = "", False
while True:
    _step = {NEXT}(said=_said, failed=_failed)
    if _step is None:
        break
    _printed, _failed = io.StringIO(), False
    try:
        with contextlib.redirect_stdout(_printed):
            exec(compile(_step, "<step>", "exec"), globals())
    except _Done:
        break
    except Exception as _error:
        _failed = True
        _printed.write("".join(traceback.format_exception_only(_error)))
    _said = _printed.getvalue()[:20000]
"""


class CodeAct(System):
    name, about = "codeact", "code step by step, variables kept (our own baseline)"

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    async def version(self) -> str:
        return digest("codeact")

    async def solve(self, job: Job) -> Answer:
        episode = job.session.episode
        if self._sandbox is None:
            self._sandbox = open_sandbox(Settings.load(), Limits(wall_s=86_400))  # a session waits for the model
        talk = _Talk(job, job.opened_model())
        tools = {**signatures(episode.tools), NEXT: ["said", "failed"]}
        limits = Limits(wall_s=job.caps.seconds)
        outcome = await self._sandbox.run(SandboxJob(SESSION, tools, limits), talk.call)
        known = {"program": talk.code, "programs": talk.steps, "crashes": talk.crashes}
        if outcome.kind == "finished" and outcome.answered:
            return Answer("answered", outcome.value, **known)  # type: ignore[arg-type]
        if talk.told:
            return Answer("answered", read_value(talk.told), **known)  # type: ignore[arg-type]
        error = talk.stopped or outcome.detail or (outcome.error.message if outcome.error else "it gave no answer")
        return Answer("unsolved", error=error, **known)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.aclose()


class _Talk:
    """The conversation of one try: each step's code against what the last one printed.

    As in the paper, a reply without code is a message to the user: after a step it is the answer, ``told``.
    """

    def __init__(self, job: Job, model: Model) -> None:
        stubs = "\n\n\n".join(render_stub(tool.protocol) for tool in job.session.episode.tools.values())
        self._messages = [Message("system", prompt("codeact", stubs=stubs)), Message("user", f"Task: {job.text}")]
        self._names = [*job.session.episode.tools, "final_answer"]
        self._job, self._model = job, model
        self.steps = self.crashes = 0
        self.code = self.stopped = self.told = ""

    async def call(self, request: CallRequest) -> CallReply:
        """Answer a call out of the jail: of a tool, or for the next step."""
        if request.tool == NEXT:
            self.crashes += bool(request.arguments.get("failed"))
            return CallReply(await self._next(str(request.arguments.get("said") or "")))
        try:
            return CallReply(await called(self._job.session.episode, request.tool, request.arguments))
        except ToolError as error:
            return CallReply(error=error.message, status=error.status)

    async def _next(self, said: str) -> str | None:
        if self.steps:
            self._messages.append(Message("user", f"It printed:\n{shown(said) or '(nothing)'}"))
        while self.steps < MAX_STEPS:
            self.steps += 1
            try:
                reply = await ask(self._model, self._messages)
            except (ModelError, ModelUnavailable) as error:
                self.stopped = str(error)
                return None
            self._messages.append(Message("assistant", reply))
            if code := extract(reply, self._names).source:
                self.code = code
                return code
            if self.code:
                self.told = reply
                return None
            self._messages.append(Message("user", "There was no ```python block. Write one."))
        self.stopped = f"no answer in {MAX_STEPS} steps"
        return None
