"""Options that several commands take, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from atc.errors import UsageError
from atc.tools.sources import FORMS, open_tools
from atc.tools.tool import Toolset

Tools = Annotated[
    list[str], typer.Option("--tools", "-t", help=f"Where the tools are: {FORMS}. May be given several times.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Offer only tools whose name fits this pattern. May be given several times."),
]
BaseUrl = Annotated[
    str | None, typer.Option("--service-url", help="Address of the OpenAPI service, where its document names none.")
]
Auth = Annotated[
    list[str] | None,
    typer.Option("--auth", help="SCHEME=CREDENTIAL for the OpenAPI service; better: ATC_AUTH_<SCHEME>."),
]
Documents = Annotated[
    str | None, typer.Option("--documents", help="Folder of protocol documents for these tools (`atc probe -o`).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def opened(
    sources: Sequence[str],
    *,
    only: Sequence[str] | None = None,
    service_url: str | None = None,
    auth: list[str] | None = None,
    documents: str | None = None,
) -> Toolset:
    """The tools that a command line names.

    Raises:
        UsageError: as :func:`atc.tools.sources.open_tools`, :meth:`Toolset.documented` and :meth:`Toolset.select`.
    """
    given = {"base_url": service_url, "auth": auth_of(auth), "undeclared": bool(documents)}
    tools = open_tools(sources, **{name: value for name, value in given.items() if value})
    tools = tools.documented(documents) if documents else tools
    return tools.select(*only) if only else tools


def auth_of(pairs: list[str] | None) -> dict[str, str]:
    """``["key=secret"]`` → ``{"key": "secret"}``.

    Raises:
        UsageError: a pair has no ``=``.
    """
    for pair in pairs or ():
        if "=" not in pair:
            raise UsageError("--auth takes SCHEME=CREDENTIAL")
    return dict(pair.split("=", 1) for pair in pairs or ())
