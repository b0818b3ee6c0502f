"""What can be plugged in (atc/parts.py): one set of rules for all kinds of parts, and each new kind in a run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from atc import Agent, FakeModel, open_model
from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.retriever import Way
from atc.errors import ModelUnavailable, SettingsError
from atc.models.resolve import PRESETS, choose_model
from atc.parts import KINDS, MODELS, RETRIEVAL, STORES, Kind
from atc.settings import Settings
from tests.support.agent import GOOD, double
from tests.support.cli import atc
from tests.support.tools import make_tool

CODE = """
import pathlib
pathlib.Path(__file__).with_suffix(".imported").touch()

from atc import FakeModel, Sketch
from atc.traces.stores.files import FileStore


def part(*given):
    raise OSError(f"no such thing: {given[0]}")


def nothing(*given):
    return None


def model(name, options):
    made = FakeModel(["answer = double(n=21)"])
    made.name, made.options = name, options
    return made


def store(address, settings):
    return FileStore(pathlib.Path(address.partition("://")[2]))


class Last:
    async def retrieve(self, task, tools, limit, ask):
        return Sketch(tools.only(*list(tools)[-limit:]))


def last(settings):
    return Last()


class Popular:
    second, share = False, 5.0

    def __init__(self, snapshot):
        self.snapshot, self.name = snapshot, "popular"

    def scores(self, query):
        import numpy as np
        return np.array([float(id == "look_7") for id in self.snapshot.ids], np.float32)


class Words(Popular):
    def __init__(self, snapshot):
        super().__init__(snapshot)
        self.name = "words"
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with entry points, as far as Python can see; what is there once it was imported."""
    made = []

    def install(group: str, points: dict[str, str], package: str = "other") -> Path:
        module, site = f"{package}_parts", tmp_path / "site"
        (about := site / f"{package}-1.dist-info").mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = (f"{name} = {module if value[0] == ':' else ''}{value}" for name, value in points.items())
        (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
        (site / f"{module}.py").write_text(CODE)
        made.append(module)
        if str(site) not in sys.path:
            monkeypatch.syspath_prepend(site)
        return site / f"{module}.imported"

    yield install
    for module in made:
        sys.modules.pop(module, None)


of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.group for kind in KINDS])


# -- the rules that hold for all kinds -------------------------------------------------------------------------------


@of_each_kind
def test_no_package_takes_a_name_of_atc(kind: Kind, install: Install) -> None:
    before = kind.names()
    imported = install(kind.group, dict.fromkeys([*kind.ours, "mine"], ":part"))
    assert sorted(kind.names()) == sorted([*before, "mine"])
    assert not [name for name in kind.own if kind.load(name).__module__.startswith("other")]
    assert not [name for name in kind.reserved if kind.has(name)]
    assert not imported.exists()


@of_each_kind
def test_a_part_is_imported_when_it_is_named_and_no_sooner(kind: Kind, install: Install) -> None:
    imported = install(kind.group, {"mine": ":part"})
    assert kind.has("mine")
    assert not imported.exists()
    assert kind.load("mine").__name__ == "part"
    assert imported.exists()


@of_each_kind
def test_two_packages_with_one_name_are_an_error_that_names_both(kind: Kind, install: Install) -> None:
    first, second = install(kind.group, {"mine": ":part"}), install(kind.group, {"mine": ":part"}, "another")
    with pytest.raises(kind.error, match=f"several packages have a {kind.word} 'mine': another .*, other .*uninstall"):
        kind.load("mine")
    assert [first.exists(), second.exists()] == [False, False]


@of_each_kind
@pytest.mark.parametrize(
    ("value", "cause"),
    [("no_such_module:x", "ModuleNotFoundError"), (":missing", "AttributeError"), ("this_exits:x", "SystemExit: 3")],
)
def test_a_part_that_cannot_be_imported_is_an_error_that_names_package_and_cause(
    kind: Kind, value: str, cause: str, install: Install
) -> None:
    site = install(kind.group, {"mine": value}).parent
    (site / "this_exits.py").write_text("raise SystemExit(3)")
    with pytest.raises(
        kind.error, match=rf"{kind.word} 'mine' \(.* of the package other\) cannot be imported: {cause}"
    ):
        kind.load("mine")


@of_each_kind
def test_an_unknown_name_is_an_error_with_all_names(kind: Kind, install: Install) -> None:
    imported = install(kind.group, {"mine": ":part"})
    with pytest.raises(kind.error, match=f"no {kind.word} is named 'mien': there are .*mine") as caught:
        kind.load("mien")
    assert all(name in str(caught.value) for name in kind.ours)
    assert not imported.exists()


@of_each_kind
def test_what_a_part_makes_is_checked_and_its_failure_shows_no_secret(kind: Kind, install: Install) -> None:
    install(kind.group, {"fails": ":part", "none": ":nothing", "number": ":__name__"})
    with pytest.raises(
        kind.error, match=r"'fails' \(.* of the package other\) failed: OSError: .*\[secret\]"
    ) as caught:
        kind.make("fails", "s3cret", a=Agent, secrets=["s3cret"])
    assert "s3cret" not in str(caught.value)
    with pytest.raises(kind.error, match=r"'none' .* made a NoneType: it must be "):
        kind.make("none", a=Agent)
    with pytest.raises(kind.error, match=r"'number' .* is no function"):
        kind.make("number", a=Agent)


SETTING = {
    "atc.strategies": "mine",
    "atc.sandboxes": "mine",
    "atc.models": "mine:tiny",
    "atc.stores": "mine://here",
    "atc.retrieval": "mine",
}
"""How a settings file names a part; sources of tools and commands are named on the command line alone."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.group in SETTING], ids=lambda kind: kind.group)
def test_a_file_that_is_not_trusted_names_no_part_of_another_package(
    kind: Kind, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = install(kind.group, {"mine": ":part"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATC_RETRIEVAL", raising=False)
    name = kind.group.removeprefix("atc.")
    name = {"strategies": "strategy", "sandboxes": "sandbox", "models": "model", "stores": "store"}.get(name, name)
    (tmp_path / "atc.toml").write_text(f'{name} = "{SETTING[kind.group]}"\n')
    with pytest.raises(SettingsError, match=f"is not trusted, so it may not set {name}="):
        Settings.load()
    assert not imported.exists()


@pytest.mark.parametrize("way", RETRIEVAL.own)
def test_a_file_that_is_not_trusted_may_name_a_way_of_atc(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATC_RETRIEVAL", raising=False)
    (tmp_path / "atc.toml").write_text(f'retrieval = "{way}"\n')
    assert Settings.load().retrieval == way


def test_the_tables_have_the_names_that_others_list() -> None:
    assert MODELS.ours == {"embedded", "openai", *PRESETS}
    assert set(RETRIEVAL.own) == set(get_args(Way))
    assert len({kind.group for kind in KINDS}) == len(KINDS)


# -- the kinds in use ------------------------------------------------------------------------------------------------


def test_a_model_of_another_package_gets_its_name_and_what_the_user_said(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(MODELS.group, {"mine": ":model"})
    made: Any = open_model("mine:tiny:8b", api_key="k", context_tokens=900)
    assert (made.name, made.options.api_key, made.options.context_tokens) == ("tiny:8b", "k", 900)
    monkeypatch.setenv("ATC_MODEL", "mine:tiny")
    assert Agent([double], sentence=False, approve="always").run("double 21").unwrap() == 42
    at = choose_model("mine:7b", base_url="http://mine/v1")  # the name of a model at an address of the user's own
    assert (at.kind, at.model) == ("endpoint", "mine:7b")


@pytest.mark.parametrize(("value", "code", "words"), [(":model", 0, "usable"), ("nowhere:x", 3, "cannot be imported")])
def test_what_is_said_of_a_model_of_another_package(
    value: str, code: int, words: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(MODELS.group, {"mine": value})
    monkeypatch.setenv("ATC_MODEL", "mine:tiny")
    said = atc("model", "info")
    assert (said.exit_code, words in said.output, "tiny" in said.output) == (code, True, True)


def test_a_kind_of_model_that_is_not_there_is_told_with_all_kinds() -> None:
    with pytest.raises(ModelUnavailable, match=r"mien: is none of embedded, anthropic, .*ollama"):
        choose_model("mien:tiny", environment={})


def test_a_store_of_another_package_keeps_the_runs_of_its_scheme(install: Install, tmp_path: Path) -> None:
    install(STORES.group, {"shared": ":store"})
    made = Agent([double], model=FakeModel([GOOD]), sentence=False, store=f"shared://{tmp_path}/runs")
    run_id = made.run("double 21").run_id
    assert (tmp_path / "runs" / run_id).exists() or list((tmp_path / "runs").glob(f"{run_id}*"))
    with pytest.raises(
        SettingsError, match=r"postgresql://…, postgres://…, shared://…\), or none for a folder"
    ) as told:
        Agent([double], model=FakeModel([]), store="nowhere://u:s3cret@h/x")
    assert "s3cret" not in str(told.value)


def look(number: int) -> Any:
    return make_tool(f"look_{number}", lambda a: number)


def found(**settings: Any) -> list[str]:
    async def ask(*_: Any) -> Any:
        raise AssertionError("no model is asked")

    made = Catalogue([look(number) for number in range(9)], settings=Settings.load(learn=False, **settings))
    return list(asyncio.run(made.find("look_1 look_2", 2, ask)).tools)


def test_a_way_to_find_tools_of_another_package_is_a_setting(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(RETRIEVAL.group, {"last": ":last"})
    assert found(retrieval="last") == ["look_7", "look_8"]
    monkeypatch.setenv("ATC_RETRIEVAL", "last")
    searched = atc("tools", "search", "a city", "--tools", "atlas")
    assert (searched.exit_code, "give --retrieval NAME: auto, lexical" in searched.output) == (2, True)
    with pytest.raises(SettingsError, match=r"retrieval: there are auto, lexical, .*last"):
        Settings.load(retrieval="first")
