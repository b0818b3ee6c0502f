"""Decides over calls that are not reads: all are made, none is, the user is asked, a function decides, or they wait.

One vocabulary for the agent, the settings and the command line: ``"ask"``, ``"never"``, ``"always"``, ``"park"`` or a
function. A call that depends on what the check warned about is not made unasked, also under ``"always"``. Nor is a
write made unasked that takes the place of another tool's, nor one that text of strangers may have chosen, nor one that
goes out with the login of a recording: who said yes to all did not know of it. ``"always"`` asks at a terminal, and
without one the answer is no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from typing import Protocol as Interface

from atc import wording
from atc._records.choices import ApproveChoice, WarningsChoice
from atc._records.origins import CallOrigins, data_flow
from atc._records.records import DataFlow, Feed, Invocation, RecordedSession, SameCall
from atc.calls import question
from atc.calls.entry import CallKey
from atc.calls.json_values import copied
from atc.errors import UsageError
from atc.result import Effect
from atc.wording import plans

if TYPE_CHECKING:
    from atc.calls.parked import ParkedCall
    from atc.calls.permissions.guard import Guard
    from atc.schemas.protocol import Protocol


def nobody_knows(tool: str) -> None:
    """Return nothing: the protocol of another tool is not known."""


def _copied(protocol: Protocol | None) -> Protocol | None:
    return None if protocol is None else protocol.model_copy(deep=True)


Verdict = Literal["allowed", "denied", "warned", "parked"]


@dataclass(frozen=True)
class ApprovalRequest:
    """A call with effects that waits for approval.

    Attributes:
        warnings: what the check warned about and the call depends on, one sentence each.
        instead_of: the tools that it replaces: they failed, and surely did nothing.
        repeats: an earlier run of the same caller that did, or may have done, the same; empty if there is none.
        in_doubt: nobody knows whether that run did it: it was cut off, or is doing it now.
        waits: that run did not do it, but waits for approval to it.
        same_as: a call of this run that did, or may have done, the same.
        protocol: of the tool.
        feeds: where its arguments come from, as far as that can be followed (:class:`atc._records.records.Feed`).
        done: the calls with effects that the task has made already.
        wait_s: seconds after which the run's own time is used up; ``None`` where it waits for as long as it takes.
        origins: where each argument came from, where a rule or the question needs it (:mod:`atc._records.origins`).
        untrusted: the arguments that say where a write goes or what it takes (a recipient, an account, an amount, a
            path, a command) and have an untrusted origin.
        author_saw: the tools whose text, which strangers write, the program's author had seen before it wrote this
            call; empty where it stood in a program that was written before.
        strangers: the tools whose text strangers write, as far as the run knows: those of ``origins`` are marked.
        protocol_of: returns the protocol of a tool that ``origins`` names: rules see what its server calls it.
        within: the kept program that makes the call, by the program's own claim: no rule rests on it.
        session: the recorded login that goes with the call: who said yes to all calls may not know whose it is.
        decided: what a person said of exactly this call while its run waited (:mod:`atc.calls.parked`); ``None`` where
            nobody did. ``decided_by``: who that was.
        place: changes with the tool, and with where it goes and for whom: a yes to further calls is one to this place.
    """

    tool: str
    arguments: dict[str, Any]
    effect: Effect
    description: str
    warnings: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    repeats: str = ""
    in_doubt: bool = False
    waits: bool = False
    same_as: SameCall | None = None
    protocol: Protocol | None = field(default=None, compare=False, repr=False)
    feeds: tuple[Feed, ...] = field(default=(), repr=False)
    done: tuple[Invocation, ...] = field(default=(), repr=False)
    wait_s: float | None = None
    origins: CallOrigins = field(default_factory=dict, repr=False)
    untrusted: tuple[str, ...] = ()
    author_saw: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    protocol_of: Callable[[str], Protocol | None] = field(default=nobody_knows, compare=False, repr=False)
    decided: bool | Refusal | None = None
    decided_by: str = ""
    within: str = ""
    session: RecordedSession | None = None
    place: str = field(default="", compare=False, repr=False)

    def copied(self) -> ApprovalRequest:
        """Return the request for code that is not ours: what it changes is neither sent nor written down."""
        of = self.protocol_of
        return replace(
            self,
            arguments=copied(self.arguments),
            origins=dict(self.origins),
            protocol=_copied(self.protocol),
            protocol_of=lambda tool: _copied(of(tool)),
        )

    @property
    def data_flow(self) -> DataFlow | None:
        """Return what a record keeps, and a person is shown, of where the arguments came from."""
        return data_flow(self.origins, self.untrusted, self.author_saw, self.strangers, self.session)

    @property
    def is_repeat(self) -> bool:
        """Whether it may do again what was done. A program may call one tool twice: that is no repeat, unless the tool
        was said to read the first time, so that nothing held the call back, or that one was in doubt before."""
        return bool(self.repeats) or (self.same_as is not None and self.same_as.may_be_repeated)

    @property
    def is_ordinary(self) -> bool:
        """Whether there is nothing to ask about but the call itself."""
        again = self.repeats or self.same_as is not None
        return not (self.warnings or self.instead_of or again or self.of_strangers or self.of_session)

    @property
    def of_strangers(self) -> bool:
        """Whether text that strangers write may have chosen where the call goes or what it takes, or wrote it."""
        return bool(self.untrusted or self.author_saw)

    @property
    def of_session(self) -> bool:
        """Whether a recorded login goes with the call that the user has not named for writes."""
        return self.session is not None and not self.session.for_writes


@dataclass(frozen=True)
class Refusal:
    """A no that says why, for the program's author: who refused, or what would allow the call.

    Attributes:
        status: of the call: that nobody approved it, or that it depends on what the check warned about.
        by_user: somebody was asked and said no; else nobody could be asked.
    """

    reason: str
    status: Literal["denied", "warned"] = "denied"
    by_user: bool = False


Verdicts = bool | Refusal
Asker = Callable[[ApprovalRequest], Verdicts | Awaitable[Verdicts]]
"""Answers with ``True`` to allow the call; everything else is a no, and a :class:`Refusal` says why."""


@dataclass(frozen=True)
class EarlierWrite:
    """A call with effects that another run of the same caller made.

    Attributes:
        run: its id.
        in_doubt: nobody knows whether the call was done: the run was cut off, or is making it now.
        waits: it was not made, but waits for approval.
    """

    run: str
    in_doubt: bool = False
    waits: bool = False


class EarlierWrites(Interface):
    """What other runs of the same caller did, as one run sees it."""

    async def find(self, key: CallKey) -> EarlierWrite | None:
        """Return the same call of another run, if one did it or may have done it."""

    def take(self, key: CallKey, known: EarlierWrite | None) -> EarlierWrite | None:
        """Note that this run is about to make a call, unless another run has taken it.

        Args:
            key: of the call.
            known: the call of another run that was asked about.

        Returns:
            The call of a run that was not asked about; nothing is noted then. Else ``None``.
        """

    def settle(self, key: CallKey, outcome: Literal["done", "refused", "unknown"]) -> None:
        """Note that a call which was taken has ended. ``refused``: it surely was not done."""


@dataclass(frozen=True)
class Parked:
    """Says what became of a call that waits for approval, or waited, for a policy's record.

    Attributes:
        event: ``parked``: it waits. ``voided``: a yes to it does not hold any more. ``expired``: nobody decided in
            time.
        call: its number in the run.
        who: gave the yes that does not hold.
        why: a yes does not hold: ``tool`` (it has changed), ``reads`` (what they say has changed), ``question`` (there
            is more to ask about), ``approver`` (it is of nobody who may decide) or ``expired``.
    """

    event: Literal["parked", "voided", "expired"]
    call: int
    who: str = ""
    why: str = ""


Approve = ApproveChoice | Asker


def checked_approve(choice: Approve | None, setting: ApproveChoice | None = None) -> Approve:
    """Return the choice, else the setting; without both, ``ask`` at a terminal and ``never`` elsewhere.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    approve = setting if choice is None else choice
    if approve is None:
        return "ask" if question.has_terminal() else "never"
    if not callable(approve) and approve not in get_args(ApproveChoice):
        raise UsageError(f"approve takes 'ask', 'never', 'always', 'park' or a function, not {approve!r}")
    return approve


NOBODY = Refusal("nobody could be asked to approve this call: the input has ended")


async def ask_at_terminal(request: ApprovalRequest) -> bool | Refusal:
    """Ask the user on standard error and read a line of standard input (:mod:`atc.calls.question`)."""
    answer = await question.ask(*question_of(request))
    return NOBODY if answer is None else answer


def question_of(request: ApprovalRequest) -> tuple[str, dict[str, Any], tuple[str, ...], question.About]:
    """Return the heading, the arguments and the warnings of a question, and what else it says."""
    instead = f" {wording.takes_place(list(map(question.visible_name, request.instead_of)))}" * bool(request.instead_of)
    again = ""
    if request.is_repeat:
        run = question.visible_name(request.repeats) if request.repeats else ""
        again = f" again ({wording.repeat(run, request.in_doubt, request.same_as, request.waits)})"
    elif request.same_as is not None:
        again = f", {wording.same_call(request.same_as)}"
    within = f" within {question.visible_name(request.within)}" * bool(request.within)
    heading = f"allow {question.visible_name(request.tool)}{within}{instead}{again}? effect: {request.effect.value}"
    from atc.wording.origins import careful, untrusted_first

    flow = request.data_flow
    arguments = untrusted_first(request.arguments, flow)
    about = question.About(
        origins=plans.origins(request.feeds, arguments, flow),
        careful=careful(flow),
        done=[wording.call(each) for each in request.done],
        wait_s=request.wait_s,
    )
    return heading, arguments, request.warnings, about


@dataclass(frozen=True)
class Approval:
    """The rule that a broker follows.

    Args:
        approve: one of the words, or a function that is asked about every call which is not a read.
        warnings: ``allow``: a warning does not matter under ``always``, and sends no program back.
        reads: a function is asked about reads, too.
        earlier: what other runs of the same caller did: to do it again is asked about.
        policy: the rules that stand before the choice, and are asked about every call, reads too.
        can_wait: the run may end as ``waiting``. Not where a plan is applied, nor in memory.
    """

    approve: Approve = "never"
    warnings: WarningsChoice = "ask"
    reads: bool = False
    earlier: EarlierWrites | None = None
    policy: Guard | None = None
    can_wait: bool = True

    @property
    def parks(self) -> bool:
        """Whether a call that needs approval waits for it, and its run ends as ``waiting``."""
        return self.approve == "park"

    @property
    def may_park(self) -> bool:
        """Whether a call may have to wait for approval: for the choice, or for a rule."""
        return self.can_wait and (self.parks or (self.policy is not None and self.policy.permissions.may_park))

    def of_run(self, run_id: str) -> Approval:
        """Return the same for one run."""
        return self if self.policy is None else replace(self, policy=self.policy.of_run(run_id))

    def of_read(self) -> Asker | None:
        """Return who is asked about a read, if there is no policy; as a rule ``None``."""
        return self.approve if self.reads and callable(self.approve) else None

    def check_decisions(self, calls: Iterable[ParkedCall]) -> None:
        """Let no decision about a parked call count that is of nobody who may decide."""
        for call in calls:
            if (decision := call.decision) is not None:
                holds = not decision.signature if self.policy is None else self.policy.holds(call)
                call.decision = replace(decision, holds=holds)

    def decide(self, request: ApprovalRequest) -> Verdict | Asker:
        """Return the verdict if nobody needs to be asked, else the function that asks."""
        if self.policy is not None:
            judgement = self.policy.judge(request)
            ruled = judgement.ruled
            if judgement.waits:
                return "parked"
            return "denied" if isinstance(ruled, Refusal) else "allowed" if ruled else judgement.answer
        match self.approve:
            case "never":
                return "denied"
            case "park":
                return "parked"
            case "ask":
                return ask_at_terminal
            case "always" if request.instead_of or request.is_repeat or request.of_strangers or request.of_session:
                return ask_at_terminal if question.has_terminal() else "denied"
            case "always" if not request.warnings or self.warnings == "allow":
                return "allowed"
            case "always":
                return ask_at_terminal if question.has_terminal() else "warned"
            case asker:
                return asker


def approval_of(given: Approve | Approval | None, setting: ApproveChoice | None, warnings: WarningsChoice) -> Approval:
    """Return the rule that was given, or that of a choice.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    return given if isinstance(given, Approval) else Approval(checked_approve(given, setting), warnings)
