"""Options that several commands take, in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from atc.errors import UsageError
from atc.tools.sources import FORMS

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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def auth_of(pairs: list[str] | None) -> dict[str, str]:
    """``["key=secret"]`` → ``{"key": "secret"}``.

    Raises:
        UsageError: a pair has no ``=``.
    """
    for pair in pairs or ():
        if "=" not in pair:
            raise UsageError("--auth takes SCHEME=CREDENTIAL")
    return dict(pair.split("=", 1) for pair in pairs or ())
