"""An agent holds its tools, its model and its sandbox from run to run; here are also the limits of a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.retriever import Retriever
from atc.errors import UsageError
from atc.models.base import Model, NoModel
from atc.models.budget import Budget, missing_price
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.functions import toolset_of
from atc.tools.tool import Tool, Toolset


class Resources:
    """A model and a sandbox, opened when a run first needs them and kept for the next one. What was given stays
    its owner's to close."""

    def __init__(self, settings: Settings, model: Model | str | None, sandbox: Sandbox | None) -> None:
        self._settings, self._model, self._sandbox = settings, model, sandbox
        self._opened: Model | None = None
        self._own_sandbox: Sandbox | None = None

    def model(self) -> Model:
        """Return the model.

        Raises:
            ModelUnavailable: there is none.
        """
        if isinstance(self._model, Model):
            return self._model
        if self._opened is None:
            settings = self._settings
            replies = replies_folder(settings) if settings.cache else None
            from atc.models.resolve import resolve_model  # only here: it imports the client of every endpoint

            self._opened = resolve_model(settings, self._model, cache_dir=replies)
        return self._opened

    def sandbox(self) -> Sandbox:
        """Return the sandbox; its jails wait for the next program.

        Raises:
            EnvironmentProblem: not the isolation that was asked for.
        """
        if self._sandbox is not None:
            return self._sandbox
        if self._own_sandbox is None:
            self._own_sandbox = open_sandbox(self._settings)
        return self._own_sandbox

    async def aclose(self) -> None:
        """Close what was opened here: its processes end. The next run opens it again."""
        async with AsyncExitStack() as stack:  # the one is closed, too, where the other fails to
            for opened in (self._own_sandbox, self._opened):
                if opened is not None:
                    stack.push_async_callback(opened.aclose)
            self._own_sandbox = self._opened = None


def replies_folder(settings: Settings) -> Path:
    """Return where the model's replies are kept, if they are."""
    return settings.runs_dir.parent / "replies"


def limits_of(settings: Settings, model: Model) -> Budget:
    """Return the limits of a run.

    Raises:
        SettingsError: it is limited in money, and the model has no price.
    """
    price = settings.prices.get(model.name)
    money = None if isinstance(model, NoModel) else settings.budget_money
    if money is not None and model.name not in settings.prices:
        raise missing_price(model.name)
    used = (settings.budget_model_calls, settings.budget_tokens, settings.budget_s)
    return Budget(*used, money, price, settings.currency)


def catalogue_of(
    tools: Toolset | Iterable[Tool | Callable[..., Any]] | None,
    catalogue: Catalogue | None,
    retriever: Retriever | None,
    settings: Settings,
) -> Catalogue:
    """Return the catalogue that was given, or one of these tools.

    Raises:
        UsageError: there are no tools, or the catalogue is given with what it has already, or a kept program of it does
            not fit what it calls. Of other tools such a program is left out, with a warning.
    """
    if catalogue is None:
        if tools is None:
            raise UsageError("an agent needs tools: Agent([function, …]), Agent(Toolset…) or Agent(catalogue=…)")
        given = toolset_of(tools)
        made = with_fitting(given)
        for left in made.left_out[len(given.left_out) :]:
            warnings.warn(left.reason, stacklevel=2)
        return Catalogue(made, retriever=retriever, settings=settings)
    if not isinstance(catalogue, Catalogue):
        raise UsageError(f"catalogue must be a Catalogue or a folder, not {type(catalogue).__name__}")
    if retriever is not None:
        raise UsageError("a catalogue has its retriever: give it there, Catalogue(tools, retriever=…), or no catalogue")
    if tools is not None and tools is not catalogue.tools and toolset_of(tools) != catalogue.tools:
        raise UsageError("the tools are not those of the catalogue: give one of them, or a catalogue of these tools")
    if (made := with_fitting(catalogue.tools)) is not catalogue.tools:
        raise UsageError(made.left_out[-1].reason)
    return catalogue


def with_fitting(tools: Toolset) -> Toolset:
    """Return the tools without the kept programs that do not fit what they call (:mod:`atc.run.kept_checks`)."""
    if all(tool.kept is None for tool in tools.values()):
        return tools
    from atc.run.kept_checks import fitting  # the checker comes with it

    return fitting(tools)
