"""CompToolBench (Rony Rahman, MIT): 109 of its tasks over 106 deterministic tools, in four depths of composition.

Tasks, tools and the calls of every solution come from the data directory. Some tasks do not say all that their solution
needs (a text is cut short, an argument is left out, a message is worded freely): ``Task.stated`` is false for them.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.result import Effect
from atc.tools.protocol import Example, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.atlas import check
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, Task, served
from benchmarks.environments.comptoolbench_service import WRITES, Record, answer

Json = dict[str, Any]

HEADLINE = {
    "detect_language": "language",
    "encrypt_text": "encrypted",
    "extract_numbers": "numbers",
    "get_exchange_rate": "converted_amount",
    "hash_text": "hash",
    "keyword_extract": "keywords",
    "mask_pii": "masked_text",
    "percentage_change": "change_percent",
    "read_file": "content",
    "sentiment_analysis": "sentiment",
    "summarize_text": "summary",
    "translate_text": "translated_text",
    "word_count": "words",
}
"""The value that a tool is asked for, where its response has others beside it."""


class CompToolBench(Environment):
    """The tasks of CompToolBench; see :func:`solved` for what counts as an answer.

    Args:
        data: the directory with ``executable/comptoolbench``.
    """

    name = "comptoolbench"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name)

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by id."""
        return {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}

    @cached_property
    def documents(self) -> dict[str, Json]:
        """The tools as the data has them, by name."""
        return {tool["name"]: tool for tool in self._data.lines("tools.jsonl.gz")}

    @cached_property
    def _record(self) -> Record:
        """Every call of every solution."""
        record = Record(self.documents)
        for task in self.records.values():
            for step in task["gold"]:
                record.add(step["tool"], step["args"], step["output"])
        return record

    def tasks(self) -> list[Task]:
        return [Task(r["id"], r["query"], tuple(r["tools"]), stated(r, self.documents)) for r in self.records.values()]

    def open(self, task: Task) -> Episode:
        own = self.records[task.id]
        tools = Toolset(self._tool(name, own) for name in task.tools)
        gold = [(step["tool"], step["args"]) for step in own["gold"]]
        wanted = Counter(step["tool"] for step in own["gold"] if step["tool"] in WRITES)

        def judge(value: Any) -> bool:
            done = Counter(call.tool for call in episode.calls if call.done)
            return solved(own, value) and wanted <= done  # nobody has sent a mail by saying so

        episode = Episode(tools, judge, gold)
        return episode

    def gold(self, task: Task) -> Gold:
        own = self.records[task.id]
        return Gold(tuple((step["tool"], step["args"]) for step in own["gold"]), own["expected"])

    def _tool(self, name: str, task: Json) -> Tool:
        document = self.documents[name]
        example = self._example(name, task)
        protocol = Protocol(
            name=name,
            description=f"{document['description']} Returns: {document['returns']}.",
            parameters=document["parameters"],
            effect=Effect.WRITE if name in WRITES else Effect.READ,
            examples=(example,) if example else (),
            source=Source(location=self.name, operation=name),
            provenance=Provenance.IMPORTED,
        )
        return served(protocol, functools.partial(answer, self._record, name))

    def _example(self, name: str, task: Json) -> Example | None:
        """A recorded call that is no part of this task's solution, to show what a response looks like."""
        own = {canonical(part) for step in task["gold"] for part in (step["args"], step["output"])}
        for arguments, output in self._record.calls(name):
            if canonical(arguments) not in own and canonical(output) not in own:
                return Example(arguments=arguments, response=output)
        return None


# What the text says -------------------------------------------------------------------------------------------------


def stated(task: Json, tools: dict[str, Json]) -> bool:
    """Tell whether every argument of the solution can be had from the text, or from what an earlier step returned.

    What a call with an effect is to say must stand in the text itself: no program words a message as the record does.
    """
    text = task["query"].casefold()
    known = text
    for step in task["gold"]:
        properties = tools[step["tool"]]["parameters"].get("properties", {})
        place = text if step["tool"] in WRITES else known
        for name, value in step["args"].items():
            allowed = () if step["tool"] in WRITES else properties.get(name, {}).get("enum", ())
            if not all(_written(leaf) in place or leaf in allowed for leaf in leaves(value)):
                return False
        known += " ".join([json.dumps(step["output"]), *map(_written, leaves(step["output"]))]).casefold()
    return True


def _written(leaf: Any) -> str:
    return str(int(leaf) if isinstance(leaf, float) and leaf.is_integer() else leaf).casefold()


def leaves(value: Any) -> Iterator[Any]:
    """The values in a value that are neither objects nor lists."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


# What counts as an answer -------------------------------------------------------------------------------------------


def solved(task: Json, value: Any) -> bool:
    """Tell whether a value answers a task.

    It does if it equals the expected output. Of a step's output the part will do that is news (not said in the call's
    own arguments), or the one value that the tool is asked for; a task of several parallel steps takes one such part
    for each step, in their order. Where the task is to pick one of several, its name will do, with no other beside it.
    """
    expected, steps = task["expected"], {step["id"]: step for step in task["gold"]}
    if check(value, expected):
        return True
    if check(expected, steps[task["final_step"]]["output"]):
        return _states(steps[task["final_step"]], value)
    parts = _parts(expected)
    if all(any(check(part, step["output"]) for step in task["gold"]) for part in parts):
        return _states_each(task["gold"], parts, value)
    return _picks(task["gold"], expected, value)


def _states(step: Json, value: Any) -> bool:
    """Whether a value tells what a step returned."""
    output = step["output"]
    if check(value, output):
        return True
    if not isinstance(output, dict):
        return False
    headline = HEADLINE.get(step["tool"])
    if headline in output:
        news = {headline}
    else:
        given = [canonical(argument) for argument in step["args"].values()]
        news = {key for key, part in output.items() if canonical(part) not in given}
    if isinstance(value, dict) and news and news <= value.keys() <= output.keys():
        return all(check(part, output[key]) for key, part in value.items())
    return len(news) == 1 and _sole(value, output[news.pop()])


def _sole(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or an object that holds it alone."""
    if isinstance(value, dict) and len(value) == 1 and not isinstance(wanted, dict):
        value = next(iter(value.values()))
    return check(value, wanted)


def _parts(expected: Any) -> list[Any]:
    return (
        list(expected.values())
        if isinstance(expected, dict)
        else expected
        if isinstance(expected, list)
        else [expected]
    )


def _states_each(gold: Sequence[Json], parts: list[Any], value: Any) -> bool:
    """Whether a value tells, one after the other, what each of several steps returned."""
    stated = _parts(value) if isinstance(value, dict | list) else []
    steps = [next(step for step in gold if check(part, step["output"])) for part in parts]
    return len(stated) == len(steps) and all(_states(step, one) for step, one in zip(steps, stated, strict=True))


def _picks(gold: Sequence[Json], expected: Json, value: Any) -> bool:
    """Whether a value names the one that was to be picked, and says nothing else of the others."""
    stated = list(leaves(value))
    name = next(part for part in expected.values() if isinstance(part, str))
    rivals = {leaf for step in gold for leaf in leaves(step["args"]) if isinstance(leaf, str) and leaf != name}
    texts = " ".join(part for part in stated if isinstance(part, str)).casefold()
    figures = [part for part in stated if isinstance(part, int | float)]
    known = [leaf for step in gold if name in step["args"].values() for leaf in leaves(step["output"])]
    return (
        name.casefold() in texts
        and not any(rival.casefold() in texts for rival in rivals)
        and all(any(check(figure, leaf) for leaf in known) for figure in figures)
    )
