"""``atc run``: solve one task."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from atc.calls.approval import ApproveChoice, WarningsChoice
from atc.cli import options
from atc.cli.console import Interrupted, clean, err, exit_code_of_run, guarded, out, print_json
from atc.models.resolve import prepare_model
from atc.wording import outcomes
from atc.wording.outcomes import caveats

if TYPE_CHECKING:
    from atc.cli.view import RunView
    from atc.result import Result
    from atc.traces.events import Event

Model = Annotated[
    str | None,
    typer.Option(help="`embedded`, `embedded:NAME`, a model's name at the endpoint, or PROVIDER:NAME (`anthropic:…`)."),
]
ModelUrl = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible endpoint of the model; default: OPENAI_BASE_URL.")
]
Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="Show the model this PNG, JPEG, WebP or GIF with the task. May be given several times.",
    ),
]
ApproveOption = Annotated[
    ApproveChoice | None,
    typer.Option(
        metavar="<word>",
        help="Calls with effects: ask each time, never, or always. Default: ask on a terminal, else never.",
    ),
]
WarningsOption = Annotated[
    WarningsChoice | None,
    typer.Option(
        metavar="<word>",
        help="Calls with effects that depend on a warning of the check: ask (default), also under `--approve always`; "
        "or allow.",
    ),
]
Ask = Annotated[
    bool | None,
    typer.Option(
        "--ask",
        help="Let programs ask you on the terminal; without one, the run ends with the question (exit code 7).",
    ),
]

ToolIndex = Annotated[
    str | None, typer.Option("--index", "-i", help="Folder of an index of the tools (`atc tools index`).")
]
Retrieval = Annotated[
    str | None,
    typer.Option(
        help="How tools are chosen among many: auto (default), lexical, hybrid, planned, or an installed way."
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        help="How to solve the task: `chain` (default), `atc-paper`, an installed one, MODULE:NAME or FILE.py:NAME."
    ),
]
MaxRevisions = Annotated[int | None, typer.Option(help="Programs that run after the first (default 3).")]
SandboxName = Annotated[
    str | None,
    typer.Option(
        help="Where programs run: `process`, `docker`, `docker:strict`, a service's address, or an added driver."
    ),
]
SandboxRequire = Annotated[
    str | None,
    typer.Option(help="The least isolation to accept: N, L or F (default L). The best there is gets used."),
]
RuleIds = Annotated[
    str | None,
    typer.Option(
        metavar="<ids>", help="Rules that help small models: all, none, or `-id,+id` (docs/failures.md lists them)."
    ),
]
Answer = Annotated[
    str | None,
    typer.Option(
        "--answer",
        metavar="<type>",
        help="Type of the value: number, text, list, yes/no, record, FILE.json (a JSON Schema), MODULE:TYPE or "
        "FILE.py:TYPE.",
    ),
]
ContextTokens = Annotated[
    int | None, typer.Option(help="Most tokens of prompt and reply together; default: what the endpoint reports.")
]
PromptTokens = Annotated[
    int | None,
    typer.Option(help="Most tokens of a prompt; default: 4,000 for the embedded model, else what the context allows."),
]
BudgetS = Annotated[float | None, typer.Option(help="Seconds that one task may take.")]
BudgetMoney = Annotated[
    float | None, typer.Option(help="What one task may cost, by the `prices` of the settings (docs/models.md).")
]
Cache = Annotated[bool | None, typer.Option("--cache", help="Keep the model's replies on disk and use them again.")]
NoLearn = Annotated[
    bool, typer.Option("--no-learn", help="Neither learn from this run nor use what earlier ones taught.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Make only reads; list the calls with effects, and what feeds them."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say why each tool is offered, and what feeds what.")]
Sentence = Annotated[
    bool | None,
    typer.Option("--sentence/--no-sentence", help="Let the program say its result in a sentence."),
]


@guarded
def run(
    task: Annotated[str, typer.Argument(help="What you want, in plain words; `-` reads it from standard input.")],
    tools: options.Tools,
    only: options.Only = None,
    image: Images = None,
    model: Model = None,
    base_url: ModelUrl = None,
    context_tokens: ContextTokens = None,
    prompt_tokens: PromptTokens = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    tool_index: ToolIndex = None,
    retrieval: Retrieval = None,
    strategy: StrategyName = None,
    max_revisions: MaxRevisions = None,
    sandbox: SandboxName = None,
    sandbox_require: SandboxRequire = None,
    approve: ApproveOption = None,
    warnings: WarningsOption = None,
    permissions: options.Permissions = None,
    read_only: options.ReadOnly = None,
    ask: Ask = None,
    rules: RuleIds = None,
    instructions: options.Instructions = None,
    budget_s: BudgetS = None,
    budget_money: BudgetMoney = None,
    cache: Cache = None,
    answer: Answer = None,
    sentence: Sentence = None,
    no_learn: NoLearn = False,
    dry_run: DryRun = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print the path of the run's trace at the end.")] = False,
    verbose: Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Solve a task: write a program that calls the tools, run it in the sandbox, revise it if it fails.

    Exit codes: 0 answered (or planned, with --dry-run), 1 not solved, 2 wrong use, 3 something is missing (a model, a
    sandbox, a credential, a service), 4 a call was not approved, 5 a tool is broken, 6 a call with effects may or may
    not have happened, 7 the program asks you something (`atc resume RUN --reply TEXT` goes on).
    """
    sizes = {"context_tokens": context_tokens, "prompt_tokens": prompt_tokens}
    prepare_model(model, base_url=base_url, cache=cache, **sizes)  # it loads while the rest is imported
    from atc.agent import Agent
    from atc.cli.view import RunView

    toolset = options.opened(tools, only=only, service_url=service_url, auth=auth, documents=documents, openapi=openapi)
    view = Shown(None if as_json else RunView(out, verbose=verbose))
    agent = Agent(
        toolset,
        model=model,
        base_url=base_url,
        context_tokens=context_tokens,
        prompt_tokens=prompt_tokens,
        tool_index=tool_index,
        retrieval=retrieval,
        strategy=strategy,
        max_revisions=max_revisions,
        sandbox=sandbox,
        sandbox_require=sandbox_require,
        rules=rules,
        instructions=options.instructions_of(instructions),
        budget_s=budget_s,
        budget_money=budget_money,
        cache=cache,
        answer=answer,
        sentence=sentence,
        learn=False if no_learn else None,
        approve=approve,
        warnings=warnings,
        permissions=permissions,
        read_only=read_only,
        ask_user="ask" if ask else None,
        on_event=view,
    )
    source = options.source_of(tools, only=only, service_url=service_url, documents=documents, openapi=openapi)
    with view.shown(kept=agent.settings.keep_runs):
        text = sys.stdin.read() if task == "-" else task
        result = asyncio.run(agent.arun(text, images=image or (), source=source, dry_run=dry_run))
    finish(result, as_json=as_json, trace=trace)


class Shown:
    """Hands the events of a run to its view, and says after Ctrl-C how to go on with the run.

    Args:
        view: of the run; ``None`` where nothing is shown.
    """

    def __init__(self, view: RunView | None) -> None:
        self._view = view
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "run_started" and not event.data.get("dry_run"):  # of that there is nothing to go on with
            self._run_id = event.data["run_id"]
        if self._view is not None:
            self._view(event)

    @contextlib.contextmanager
    def shown(self, *, kept: bool) -> Iterator[None]:
        """Show what happens in a block, which is a run. ``kept``: the run is, and so can be resumed.

        Raises:
            Interrupted: it was stopped by Ctrl-C, and can be gone on with.
        """
        try:
            yield
        except KeyboardInterrupt:
            if kept and self._run_id:
                raise Interrupted(f"`atc resume {self._run_id}` goes on with it") from None
            raise
        finally:
            if self._view is not None:
                self._view.close()


def finish(result: Result, *, as_json: bool, trace: bool) -> None:
    """Print what is left to print, and leave with the exit code of a result."""
    if as_json:
        print_json(result.model_dump(mode="json"))
    report(result, viewed=not as_json)
    if trace and not as_json:
        out.print(f"trace: {result.trace}", markup=False)
    raise typer.Exit(exit_code_of_run(result.status))


def report(result: Result, *, viewed: bool) -> None:
    """Print on stderr what the user must see to: calls in doubt, those not made, and that a run is incomplete.

    Args:
        result: of the run.
        viewed: its events were shown: the last of them says what the result's fault says.
    """
    said = result.fault.call if viewed and result.partial and result.fault is not None else None
    for call in (call for call in result.in_doubt if call.index != said):
        err.print(
            f"in doubt: {call.tool}({clean(str(call.arguments))}) may or may not have happened; check it by hand",
            markup=False,
        )
    refused = [call.error_status for call in result.calls if call.status == "refused"]
    if warned := refused.count("warned"):
        hint = "--approve always --warnings allow makes them; on a terminal you are asked"
        err.print(f"not made: {warned} calls that depend on a warning of the check ({hint})", markup=False)
    denied = sum(call.error_status == "denied" and call.refused_by != "user" for call in result.calls)
    if denied and result.status != "denied":  # else the fault says it
        hint = "--approve ask or always makes them; a function of yours that only reads: @atc.tool(effect='read')"
        err.print(f"not approved: {denied} calls ({hint})", markup=False)
    if not viewed and result.status not in ("answered", "planned"):
        for line in outcomes.effects(result.done, result.not_done, in_doubt=result.status == "in_doubt"):
            err.print(clean(line), markup=False)
    for caveat in caveats(result) if not viewed else ():
        err.print(clean(caveat), markup=False)
