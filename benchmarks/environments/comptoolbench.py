"""CompToolBench (Rony Rahman, MIT): 109 of its tasks over 106 deterministic tools, in four depths of composition.

Tasks, tools and the calls of every solution come from the data directory. Some tasks do not say all that their solution
needs (a text is cut short, an argument is left out, a message is worded freely): ``Task.stated`` is false for them.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Example, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, Task, calculate, served
from benchmarks.environments.comptoolbench_answers import leaves, other_answers, solved

Arguments = dict[str, Any]
Computed = Callable[[Arguments], Any]

WRITES = frozenset(
    """
    create_calendar_event create_contact create_invoice create_notification create_spreadsheet create_task
    http_request log_event schedule_meeting send_email send_message send_webhook set_reminder store_memory
    write_file
    """.split()
)
"""The tools that change something."""

_DEFAULT = re.compile(r"\(default '?([\w.]+)'?\)|Default is '?(\w+)'?", re.IGNORECASE)


class Record:
    """Calls and what they returned, found again by their tool and arguments.

    Args:
        tools: the tools' documents by name; an argument with its documented default counts as left out.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]]) -> None:
        self._defaults = {name: _defaults(tool) for name, tool in tools.items()}
        self._outputs: dict[tuple[str, str], Any] = {}
        self._calls: dict[str, list[tuple[Arguments, Any]]] = {}

    def add(self, tool: str, arguments: Arguments, output: Any) -> None:
        """Write down one call; of equal calls the first counts."""
        key = self._key(tool, arguments)
        if key not in self._outputs:
            self._outputs[key] = output
            self._calls.setdefault(tool, []).append((arguments, output))

    def find(self, tool: str, arguments: Arguments) -> Any:
        """The recorded output of such a call.

        Raises:
            KeyError: there is none.
        """
        return self._outputs[self._key(tool, arguments)]

    def calls(self, tool: str) -> list[tuple[Arguments, Any]]:
        """The different recorded calls of a tool, in order."""
        return self._calls.get(tool, [])

    def _key(self, tool: str, arguments: Arguments) -> tuple[str, str]:
        defaults = self._defaults.get(tool, {})
        given = {name: value for name, value in arguments.items() if str(value) != defaults.get(name)}
        return tool, canonical(given)


def _defaults(tool: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, schema in tool["parameters"].get("properties", {}).items():
        if match := _DEFAULT.search(schema.get("description", "")):
            found[name] = match[1] or match[2]
    return found


def answer(record: Record, tool: str, arguments: Arguments) -> Any:
    """What the service answers to a call.

    Raises:
        ToolError: it has nothing for these arguments, or they are wrong.
    """
    try:
        return record.find(tool, arguments)
    except KeyError:
        pass
    if tool in WRITES:
        return _confirmed(record, tool, arguments)
    computed = _rate(record, arguments) if tool == "get_exchange_rate" else compute(tool, arguments)
    if computed is None:
        raise ToolError(f"{tool} has no data for these arguments", status="not_found")
    return computed


def _confirmed(record: Record, tool: str, arguments: Arguments) -> dict[str, Any]:
    """A recorded confirmation with these arguments in the place of its own, and an identifier of its own."""
    calls = record.calls(tool)
    if not calls:
        return {"status": "ok", **arguments}
    old, output = calls[0]
    return {key: _retold(key, value, old, arguments) for key, value in output.items()}


def _retold(key: str, value: Any, old: Arguments, new: Arguments) -> Any:
    if key in new:
        return new[key]
    if key in old:
        return None
    if key == "size":
        return len(str(new.get("content", "")))
    if not isinstance(value, str):
        return value
    if key.endswith("_id"):
        return f"{value.partition('_')[0]}_{hashlib.sha256(canonical(new).encode()).hexdigest()[:12]}"
    if key == "body_preview":
        return str(new.get("body", ""))[:100]
    for name, text in old.items():
        if isinstance(text, str) and text and name in new:
            value = value.replace(text, str(new[name]))
    return value


def _rate(record: Record, arguments: Arguments) -> dict[str, Any] | None:
    source, target, amount = arguments["from_currency"], arguments["to_currency"], float(arguments.get("amount", 1.0))
    for _, output in record.calls("get_exchange_rate"):
        if (output["from_currency"], output["to_currency"]) == (source, target):
            return {**output, "amount": amount, "converted_amount": round(amount * output["rate"], 4)}
    return None


# Plain functions ----------------------------------------------------------------------------------------------------


def compute(tool: str, arguments: Arguments) -> Any:
    """The answer of a tool that is a plain function; ``None`` if it is none of these, or not for these arguments.

    Raises:
        ToolError: the function has no value there.
    """
    if tool not in COMPUTED:
        return None
    try:
        return COMPUTED[tool](arguments)
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise ToolError(f"{tool}: {error}", status="invalid") from None


def _calculator(given: Arguments) -> Any:
    return {"expression": given["expression"], "result": float(calculate(given["expression"]))}


def _min_max(given: Arguments) -> Any:
    low, high = float(min(given["numbers"])), float(max(given["numbers"]))
    return {"min": low, "max": high, "range": round(high - low, 10)}


def _percentage_change(given: Arguments) -> Any:
    percent = round((given["new_value"] - given["old_value"]) / abs(given["old_value"]) * 100, 4)
    return {
        "change_percent": percent,
        "direction": "increase" if percent > 0 else "decrease" if percent else "unchanged",
    }


def _round_number(given: Arguments) -> Any:
    return {"rounded": round(float(given["value"]), int(given.get("decimals", 2)))}


def _clamp(given: Arguments) -> Any:
    clamped = max(given["min_val"], min(given["value"], given["max_val"]))
    return {"clamped": clamped, "was_clamped": clamped != given["value"]}


def _statistics(given: Arguments) -> Any:
    numbers = [float(number) for number in given["numbers"]]
    summary: dict[str, Any] = {
        "count": len(numbers),
        "mean": round(statistics.fmean(numbers), 4),
        "median": statistics.median(numbers),
        "min": min(numbers),
        "max": max(numbers),
        "sum": round(sum(numbers), 10),
        "stdev": round(statistics.stdev(numbers), 4) if len(numbers) > 1 else 0.0,
    }
    return summary if given.get("operation", "summary") == "summary" else None


def _format_number(given: Arguments) -> Any:
    forms = {"comma": "{:,.2f}", "percent": "{:.2%}"}
    form = forms.get(given["format"])
    return {"formatted": form.format(given["value"])} if form else None


def _unit_convert(given: Arguments) -> Any:
    value, source, target = float(given["value"]), given["from_unit"], given["to_unit"]
    celsius = {"celsius": value, "fahrenheit": (value - 32) / 1.8, "kelvin": value - 273.15}.get(source.lower())
    if celsius is None:
        return None
    made = {"celsius": celsius, "fahrenheit": celsius * 1.8 + 32, "kelvin": celsius + 273.15}.get(target.lower())
    if made is None:
        return None
    return {"original_value": value, "from_unit": source, "converted_value": round(made, 4), "to_unit": target}


def _add_duration(given: Arguments) -> Any:
    start = dt.datetime.fromisoformat(given["date"])
    end = start + dt.timedelta(**{unit: given.get(unit) or 0 for unit in ("days", "hours", "minutes")})
    return {"result_date": end.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _date_diff(given: Arguments) -> Any:
    first, second = (dt.date.fromisoformat(given[name]) for name in ("date1", "date2"))
    days = abs((second - first).days)
    return {
        "date1": given["date1"],
        "date2": given["date2"],
        "days": days,
        "weeks": round(days / 7, 1),
        "months": round(days / 30.44, 1),
        "years": round(days / 365.25, 2),
        "date1_is_before": first < second,
    }


def _word_count(given: Arguments) -> Any:
    text = given["text"]
    return {"words": len(text.split()), "characters": len(text), "sentences": len(re.findall(r"[.!?]+", text))}


def _hash_text(given: Arguments) -> Any:
    return {
        "hash": hashlib.new(given["algorithm"], given["text"].encode()).hexdigest(),
        "algorithm": given["algorithm"],
    }


def _slugify(given: Arguments) -> Any:
    return {"slug": re.sub(r"[^a-z0-9]+", "-", given["text"].lower()).strip("-")}


def _generate_url(given: Arguments) -> Any:
    if given["params"].strip() not in ("", "{}"):
        return None
    return {"url": f"{given['base'].rstrip('/')}/{given['path'].lstrip('/')}"}


def _case_convert(given: Arguments) -> Any:
    made = {"upper": str.upper, "lower": str.lower, "title": str.title}.get(given["target_case"])
    return {"converted": made(given["text"])} if made else None


COMPUTED: dict[str, Computed] = {
    "add_duration": _add_duration,
    "calculate_date_diff": _date_diff,
    "calculator": _calculator,
    "case_convert": _case_convert,
    "clamp_value": _clamp,
    "format_number": _format_number,
    "generate_url": _generate_url,
    "hash_text": _hash_text,
    "min_max": _min_max,
    "percentage_change": _percentage_change,
    "round_number": _round_number,
    "slugify": _slugify,
    "statistical_analysis": _statistics,
    "unit_convert": _unit_convert,
    "word_count": _word_count,
}
"""The tools that are plain functions, as far as every recorded call of them agrees."""


Json = dict[str, Any]


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
            return solved(own, value, WRITES) and wanted <= done  # nobody has sent a mail by saying so

        episode = Episode(tools, judge, gold)
        return episode

    def gold(self, task: Task) -> Gold:
        own = self.records[task.id]
        calls = tuple((step["tool"], step["args"]) for step in own["gold"])
        right, near = other_answers(own, WRITES)
        return Gold(calls, own["expected"], alternatives=right, near=near)

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
    Nor does one write a part of an earlier response into a text as the record does: a task whose tool takes such a text
    is not stated, unless a response has it as a text or the tool is a plain function, which answers to any.
    """
    text = task["query"].casefold()
    known, texts = text, set[str]()
    for step in task["gold"]:
        properties = tools[step["tool"]]["parameters"].get("properties", {})
        place = text if step["tool"] in WRITES else known
        for name, value in step["args"].items():
            allowed = () if step["tool"] in WRITES else properties.get(name, {}).get("enum", ())
            if not all(_written(leaf) in place or leaf in allowed for leaf in leaves(value)):
                return False
            dumped = isinstance(value, str) and value.startswith(("[{", '{"')) and step["tool"] not in COMPUTED
            if dumped and texts and value not in texts:
                return False
        texts |= {leaf for leaf in leaves(step["output"]) if isinstance(leaf, str)}
        known += " ".join([json.dumps(step["output"]), *map(_written, leaves(step["output"]))]).casefold()
    return True


def _written(leaf: Any) -> str:
    return str(int(leaf) if isinstance(leaf, float) and leaf.is_integer() else leaf).casefold()
