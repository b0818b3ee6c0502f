"""``atc help``: what several commands take, explained once: sources of tools, strategies, exit codes, rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from atc._records.rules import RULES
from atc.cli.console import guarded, out
from atc.errors import UsageError

SOURCES = """\
A source is where tools are. Name one with --tools SOURCE (or -t), several by repeating it. Without --tools, commands
that need tools take those of ATC_TOOLS, whose words are quoted as in a shell.

atlas                      The bundled tools, to try things: cities, airports, sun and moon, trips. No network.
FILE.py, FILE.py:NAME      The functions with @atc.tool in a file of yours, or what it holds under a name.
MODULE:NAME                The same, of a module that Python can import.
FILE.yaml, FILE.json, URL  An OpenAPI document, or the address of a service that has one.
mcp:URL                    An MCP server over HTTP.
'mcp:COMMAND …'            An MCP server that is a program: ATC starts it.
FILE.json                  A file with mcpServers, as MCP clients have: all of its servers.
har:FILE, har:FILE@HOST    A recording of a browser (HAR), or its calls of one host.
kept, NAME.atc, DIR        Programs that you kept (`atc runs keep`): all of them, one, or those of a folder.
DIR                        A folder of tool definitions (`atc probe -o DIR`).
NAME:ARG                   A tool source that an installed package adds.

--only PATTERN narrows the tools by name. --openapi NAME=VALUE reads and calls OpenAPI documents and recordings
differently:

service_url=URL            Call this address instead of the document's own.
auth.SCHEME=CREDENTIAL     Credential of a security scheme. Better: ATC_AUTH_<SCHEME>, which no command line shows.
effect=PATTERN:read        What operations do: read, write or unknown. The pattern is a name, or `GET /path`.
server.NAME=VALUE          A variable of the server's address.
max_mb=N                   Read a document of up to this size.
session=keep               What to do with the login of a recording: keep, memory or none.
allow_session_writes, allow_remote_refs, allow_http_credentials
                           Allow calls that change something with a recorded login, documents that load others, and
                           credentials over http."""

STRATEGIES = """\
A strategy is the way in which a run solves a task. Choose one with `--strategy NAME` or ATC_STRATEGY.

chain        (default) The model writes one whole program. It is checked, run, and revised after a failure.
atc-paper    The same by the paper, word by word: no check, no repair; the first program that answers counts.
FILE.py:NAME, MODULE:NAME
             A class or an object in your own code. It runs outside the sandbox, with your rights.
NAME         The entry point of that name in the group `atc.strategies` of an installed package.

Strategies of other papers, for comparison, are a package of their own (`pip install ./research` in a checkout):

react          A thought and one call at a time.
plan           One JSON plan of calls, then the answer.
codeact        A piece of code at a time; variables stay.
dfsdt          One call at a time; goes back a step after a failure.
layered        One small program for each layer of tools.
layered-calls  The calls of one layer at a time.
navigate       One decision at a time: answer, ask, search tools, or call one.

The tools, the approval, the journal and the sandbox are the same for each."""

EXIT_CODES = """\
code  status              meaning
0     answered, planned   Done: the task is answered, or a dry run listed its calls.
1     unsolved, budget    Not done: no program answered it, or a budget is used up.
2                         Wrong use. The message says where, and what to do.
3     missing             A model, sandbox, credential or service is missing. `atc doctor` looks.
4     denied              A call was not approved, also if the program continued without it.
5     tool_broken         A tool is broken.
6     in_doubt            A call may or may not have happened, also if the run ended as `unsolved`, `budget` or
                          `failed`. `atc runs settle RUN` finds out.
7     needs_input         The program asks you. `atc resume RUN --reply TEXT` continues.
8     waiting             Calls wait for approval (--approve park). `atc runs approve RUN` decides.
130                       Ctrl-C. Nothing is left running.

`run`, `chat`, `resume`, `tools call` and `runs apply` use all of them; `chat`, of the first task without an answer.
Other commands use 0 to 3, and these mean more there:

batch                1: some tasks have no answer. 2: a line is wrong, and nothing ran. 8: only what waits is left.
probe                1: some tools are not documented; with --check, something has changed.
                     3: with --check, some tools could not be compared, and no other changed.
permissions explain  4: the call is denied.
runs show            2: there is no such run, or a line of its trace is damaged; the others are shown.
runs approve         2: also an approval without a terminal or a key that is needed. 4: you denied a call.
runs settle          2: also --done without a terminal. 6: a call is still in doubt.
runs undo            1: something is not undone. 4: a call was not approved. 6: an inverse is in doubt.
runs keep, record    2: the run cannot be kept, or be a test. 4: you declined.
runs apply           4: also if you declined the plan.
mcp install, trust   1: you declined. 2: also a file that cannot be edited.
sandbox check        1: a check failed. 3: the sandbox is not there.

With --json, an error is also a document on standard output: {"error": {"kind": …, "message": …, "hint": …}}."""

RULES_HEAD = """\
Rules rewrite a program, warn, or add a note for a special case. `--set rules=-NAME` switches one off, `rules=none` all.
"""


def rules() -> str:
    """Return the rules: of each its name, what was seen, and what it does then."""
    return "\n".join((RULES_HEAD, *(f"{each.id}\n    Seen: {each.why}.\n    Then: {each.does}." for each in RULES)))


TOPICS: dict[str, Callable[[], str]] = {
    "sources": lambda: SOURCES,
    "strategies": lambda: STRATEGIES,
    "exit-codes": lambda: EXIT_CODES,
    "rules": rules,
}


@guarded
def explain(
    topic: Annotated[str | None, typer.Argument(help="Topic: sources, strategies, exit-codes or rules.")] = None,
) -> None:
    """Explain what options take: sources, strategies, exit-codes, rules."""
    if topic is None:
        out.print(f"`atc help TOPIC` explains: {', '.join(TOPICS)}. `atc COMMAND --help` explains a command.")
        return
    if topic not in TOPICS:
        raise UsageError(
            f"there is no topic {topic!r:.80}, but {', '.join(TOPICS)}; `atc COMMAND --help` explains a command"
        )
    out.print(TOPICS[topic](), markup=False)
