"""``atc runs delete``: runs that are deleted, what goes with them, and what stays and why."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.text import Text

from atc.calls import question
from atc.cli import options
from atc.cli.console import clean, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.run.resources import replies_folder
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import Pruned, RunStore, delete, prune


@guarded
def delete_runs(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs: id, its beginning or end, `last`; or `all`.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=0, help="Delete all but this many of the newest.")] = None,
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="Also runs with a write in doubt, after a question.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Answer that question with yes.")] = False,
    replies: Annotated[
        bool, typer.Option("--replies", help="With `all`: also the cache of the model's replies.")
    ] = False,
    lessons: Annotated[
        bool, typer.Option("--lessons", help="With `all`: also what runs have taught about tools.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Delete runs, or all of them.

    A run in progress is never deleted, and one with a write in doubt only with --in-doubt.
    """
    settings = Settings.load()
    wanted = Wanted(keep, tuple(runs or ()), in_doubt, yes, replies, lessons)
    _show_deleted(deleted(open_store(settings), settings, wanted), as_json=as_json)


ALL = "all"
"""In place of a run's name: every run."""


@dataclass(frozen=True)
class Wanted:
    """What is to be deleted.

    Attributes:
        keep: all but so many of the newest runs.
        names: runs, or ``all``.
        in_doubt: also those with a write in doubt, after a question; ``yes``: the question is answered.
        replies: also the cache of the model's replies. ``lessons``: also what runs have taught.
    """

    keep: int | None = None
    names: tuple[str, ...] = ()
    in_doubt: bool = False
    yes: bool = False
    replies: bool = False
    lessons: bool = False

    def check(self) -> None:
        """Raises UsageError for what does not go together."""
        if self.keep is not None and self.names:
            raise UsageError("name runs or give --keep, not both")
        if (self.replies or self.lessons) and self.names != (ALL,):
            raise UsageError("--replies and --lessons belong to all runs: give them with `atc runs delete all`")
        if self.in_doubt and not self.names:
            raise UsageError("--in-doubt is about runs that you name: name them, or `all`")
        if self.keep is None and not self.names:
            raise UsageError("name the runs to delete, or `all`, or give --keep N to keep the newest")
        if self.yes and not self.in_doubt:
            raise UsageError("--yes answers the question about runs in doubt: give --in-doubt too")


@dataclass
class Deleted:
    """What was deleted, and what stays.

    Attributes:
        pruned: the runs.
        more: what went beside them, in words.
        left: what stays beside the runs, by its place, each with the reason.
    """

    pruned: Pruned
    more: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        kept = [{"run_id": run_id, "why": why} for run_id, why in self.pruned.spared.items()]
        beside = {"also_deleted": self.more, "left": [{"path": p, "why": w} for p, w in self.left.items()]}
        return {"deleted": self.pruned.deleted, "kept": kept} | {name: each for name, each in beside.items() if each}


def deleted(store: RunStore, settings: Settings, wanted: Wanted) -> Deleted:
    """Delete what is wanted.

    Raises:
        UsageError: a run is not there, or a named one is in progress or in doubt.
        EnvironmentProblem: the store does not answer.
    """
    wanted.check()
    if wanted.keep is not None:
        store.check()
        return Deleted(prune(store, wanted.keep))
    everything = wanted.names == (ALL,)
    if everything:
        store.check()
        runs = store.everything()
    else:  # all are found before one is deleted
        runs = [*{run.run_id: run for run in map(store.find, wanted.names)}.values()]
    pruned = delete(runs)
    if wanted.in_doubt and pruned.in_doubt and (wanted.yes or _may_go(pruned.in_doubt)):
        again = delete([store.run(run_id) for run_id in pruned.in_doubt], in_doubt=True)
        pruned.deleted += again.deleted
        spared = {run_id: why for run_id, why in pruned.spared.items() if run_id not in pruned.in_doubt}
        pruned = Pruned(pruned.deleted, spared | again.spared)
    if not everything:
        if pruned.spared:
            raise UsageError("; ".join(pruned.spared.values()))
        return Deleted(pruned)
    store.sweep()
    return _beside(Deleted(pruned), settings, wanted)


def _may_go(in_doubt: dict[str, str]) -> bool:
    """Ask whether runs may go of which nothing else tells what may have happened."""
    if not question.has_terminal():
        raise UsageError(
            f"{len(in_doubt)} runs have a write in doubt, and no one is available to confirm it: give --yes, or leave "
            "--in-doubt out; the others are deleted"
        )
    heading = f"delete {len(in_doubt)} runs with a write in doubt? Nothing else says what may have happened"
    return bool(asyncio.run(question.ask(heading, in_doubt)))


def _beside(found: Deleted, settings: Settings, wanted: Wanted) -> Deleted:
    replies = replies_folder(settings)
    if replies.is_dir():
        if wanted.replies:
            found.more.append(f"the cache of replies, {sum(each.is_file() for each in replies.rglob('*'))} files")
            try:
                shutil.rmtree(replies)
            except OSError as error:
                raise EnvironmentProblem(f"{replies} cannot be deleted: {error.strerror or error}") from None
        else:
            found.left[str(replies)] = "the model's replies (`cache`): --replies deletes them too"
    if wanted.lessons:
        found.more.append(f"{_forget(settings)} facts that runs had taught")
    elif settings.catalogue.is_dir():
        found.left[str(settings.catalogue)] = "what runs have taught, names and counts: --lessons deletes it too"
    if settings.audit.exists():
        found.left[str(settings.audit)] = "the audit log, which says who allowed what: delete it by hand"
    return found


def _forget(settings: Settings) -> int:
    from atc.catalogue.catalogue import store_in

    lessons = store_in(settings.catalogue)
    try:
        count = lessons.forget(None)
    finally:
        lessons.close()
    rankings = [*settings.catalogue.glob("ranking-*.json")]  # which earlier versions learnt
    for each in rankings:
        each.unlink(missing_ok=True)
    return count + len(rankings)


def _show_deleted(found: Deleted, *, as_json: bool) -> None:
    if as_json:
        print_json(found.record())
        return
    out.print(f"{len(found.pruned.deleted)} deleted")
    for line in (*(f"deleted: {each}" for each in found.more), *found.pruned.spared.values()):
        out.print(Text(clean(line)))
    for place, why in found.left.items():
        out.print(Text(clean(f"{place} stays: {why}")))
