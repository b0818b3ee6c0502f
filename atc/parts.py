"""Parts can be plugged into ATC: their kinds, the entry-point group of each, and what an entry point names.

A package adds a part by an entry point: ``[project.entry-points."atc.stores"]``, ``shared = "my_package:open_shared"``.
The parts of ATC are in the same tables. docs/extending.md has an example of each kind. These rules hold for all kinds:

- A part is imported only when the user names it, and it runs with the user's rights.
- No package takes the name of a part of ATC. If two packages have one name, that is an error, which names both.
- A file that the user has not trusted (:mod:`atc._host.trust`) may name parts of ATC only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from atc.errors import AtcError, EnvironmentProblem, SettingsError, ToolImportError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """One kind of part, with its names.

    Attributes:
        word: what a message calls such a part.
        group: of the entry points of other packages.
        opens: what an entry point names.
        own: the parts of ATC, by name, as ``module:Name``: they are imported when they are named, too.
        reserved: other names that mean something already. They are no parts of this table.
        error: what is raised where a part cannot be had.
    """

    word: str
    group: str
    opens: str
    own: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    error: type[UsageError] = UsageError

    @property
    def ours(self) -> frozenset[str]:
        """Return the names that no other package can take, and that any file may use."""
        return self.reserved | self.own.keys()

    def names(self) -> list[str]:
        """Return all names: those of ATC, then those of other packages. Nothing is imported."""
        return [*self.own, *sorted(self.reserved), *sorted(self._installed())]

    def has(self, name: str) -> bool:
        """Return whether there is a part of this name; a reserved one is none."""
        return name in self.own or (name not in self.reserved and name in self._installed())

    def load(self, name: str) -> Any:
        """Return what a name means, imported.

        Raises:
            UsageError: (as :attr:`error`) there is none, several packages have it, or it cannot be imported.
            EnvironmentProblem: what it needs is not installed.
        """
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            return getattr(import_module(module), attribute)
        point = self._point(name)
        try:
            return point.load()
        except EnvironmentProblem:
            raise  # it says itself what it lacks
        except (Exception, SystemExit) as error:  # the code of another package may raise anything
            raise self._failed(point, "cannot be imported", error) from error

    def make(self, name: str, *given: Any, a: type[T], secrets: Collection[str] = ()) -> T:
        """Return the part that the function of a name makes.

        Args:
            name: of the function.
            *given: its arguments, as :attr:`opens` says.
            a: the class that the part is of.
            secrets: what no message may show.

        Raises:
            UsageError: as :meth:`load`; or the function failed, or made something else. Errors of ATC pass.
        """
        function = self.load(name)
        if name in self.own:
            made = function(*given)
            assert isinstance(made, a)
            return made
        point = self._point(name)
        if not callable(function):
            raise self.error(f"{self._described(point)} is no function: it must be {self.opens}")
        try:
            made = function(*given)
        except AtcError:
            raise
        except Exception as error:
            raise self._failed(point, "failed", error, secrets) from error
        if not isinstance(made, a):
            raise self.error(f"{self._described(point)} made a {type(made).__name__}: it must be {self.opens}")
        return made

    def _point(self, name: str) -> EntryPoint:
        installed = self._installed()
        found = installed.get(name, [])
        if len(found) > 1:
            packages = ", ".join(sorted(f"{_package(each)} ({each.value})" for each in found))
            raise self.error(f"several packages have a {self.word} {name!r}: {packages}; uninstall all but one")
        if not found:
            known = ", ".join([*self.own, *sorted(self.reserved), *sorted(installed)])
            raise self.error(f"no {self.word} is named {name[:200]!r}: there are {known or 'none'}")
        return found[0]

    def _installed(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of other packages, by name; one that two places of the path have counts once."""
        from importlib.metadata import entry_points  # slow to import, and seldom needed

        found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if point.name not in self.ours:
                found.setdefault(point.name, {})[_package(point), point.value] = point
        return {name: list(points.values()) for name, points in found.items()}

    def _failed(self, point: EntryPoint, how: str, error: BaseException, secrets: Collection[str] = ()) -> UsageError:
        cause = f"{type(error).__name__}: {error}"
        for secret in sorted(secrets, key=len, reverse=True):
            cause = cause.replace(secret, "[secret]")
        return self.error(f"{self._described(point)} {how}: {cause}")

    def _described(self, point: EntryPoint) -> str:
        return f"{self.word} {point.name!r} ({point.value} of the package {_package(point)})"


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module.partition(".")[0]


STRATEGIES = Kind(
    "strategy",
    "atc.strategies",
    "a subclass of atc.Strategy, or an object of one",
    {"chain": "atc.run.chain:Chain", "atc-paper": "atc.run.paper:Paper"},
)
TOOL_SOURCES = Kind(
    "tool source",
    "atc.tools",
    "a function of the ARG of NAME:ARG that returns an atc.Toolset",
    {"atlas": "atc.atlas.source:open_atlas"},
    frozenset({"http", "https", "mcp"}),
    ToolImportError,
)
SANDBOXES = Kind(
    "sandbox driver",
    "atc.sandboxes",
    "a function of the settings and the limits that returns an atc.Sandbox",
    {
        "process": "atc.sandboxes.drivers:open_process",
        "docker": "atc.sandboxes.drivers:open_docker",
        "docker:strict": "atc.sandboxes.drivers:open_docker",
    },
    frozenset({"http", "https"}),
    SettingsError,
)
MODELS = Kind(
    "kind of model",
    "atc.models",
    "a function of the NAME of KIND:NAME and the atc.models.base.ModelOptions that returns an atc.Model",
    {"embedded": "atc.models.resolve:open_embedded"},
    frozenset("anthropic azure gemini groq llamacpp lmstudio mistral ollama openai openrouter vllm".split()),
)
STORES = Kind(
    "store of runs",
    "atc.stores",
    "a function of the address and the settings that returns an atc.traces.stores.RunStore",
    {"postgresql": "atc.traces.stores:open_postgres", "postgres": "atc.traces.stores:open_postgres"},
    error=SettingsError,
)
RETRIEVAL = Kind(
    "way to find tools",
    "atc.retrieval",
    "a function of the settings that returns an atc.Retriever",
    dict.fromkeys(("auto", "lexical", "hybrid"), "atc.catalogue.index.retriever:by_index"),
    error=SettingsError,
)
LEARN = Kind("command of `atc tools learn`", "atc.learn", "a function that is a command of Typer, or a typer.Typer")
KINDS = (STRATEGIES, TOOL_SOURCES, SANDBOXES, MODELS, STORES, RETRIEVAL, LEARN)
