"""What counts as an answer to a task of CompToolBench, whose own answers are most often the raw response of a tool.

The rules were decided over tries whose systems were not named, by two readers who both had to say that such an answer
is right (benchmarks/README.md). They are of kinds of tasks, and hold for all tasks of a kind:

* *Asked for.* Of a response that is wanted what its tool is asked for will do (:data:`ASKED`), or what is news in it:
  not said in the call's own arguments. Of a call that changes something, and was made, its confirmation.
* *Said in any form.* Values may be bare, in an object or list, or in a short text. Then all that is asked for must be
  in it, every number in it must be one of those calls, and of several alike (the weather of three cities) each value
  must follow its own name.
* *Compare.* Where a text asks to compare and names no output, the compared value of each will do. What is said to be
  the most or the least must be it.
* *Less than the text asks for.* Where a solution formats the greatest of several amounts, and its text asks for the
  least and the greatest, both will do, formatted alike; with their rates where the text asks for rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from atc.calls.json_values import canonical
from benchmarks.environments.atlas_tasks import check

Json = dict[str, Any]

ASKED: dict[str, tuple[str, ...]] = {
    "calculate_date_diff": ("days", "weeks", "months", "years"),
    "check_url_status": ("status_code", "response_time_ms"),
    "data_aggregate": ("groups",),
    "data_filter": ("filtered",),
    "data_sort": ("sorted",),
    "database_query": ("results",),
    "detect_language": ("language",),
    "dns_lookup": ("ip_address", "record_type"),
    "encrypt_text": ("encrypted",),
    "extract_entities": ("entities",),
    "extract_numbers": ("numbers",),
    "generate_report": ("report",),
    "get_current_time": ("date", "time"),
    "get_exchange_rate": ("converted_amount",),
    "get_weather": ("temperature_celsius", "humidity_percent", "wind_speed_kmh", "condition"),
    "hash_text": ("hash",),
    "keyword_extract": ("keywords",),
    "mask_pii": ("masked_text",),
    "percentage_change": ("change_percent",),
    "read_file": ("content",),
    "sentiment_analysis": ("sentiment",),
    "summarize_text": ("summary",),
    "translate_text": ("translated_text",),
    "web_search": ("results",),
    "word_count": ("words",),
}
"""What a tool is asked for, as its description has it, where its response holds more."""
CONFIRMS = re.compile(r"^(status|confirmation)$")
"""Fields of a response that confirm by themselves what was done, beside the identifier of what was made."""
MOST_WORDS, MOST_OF_A_PART = 30, 6
"""Words of a text beside the values that it is to tell, and of a text in an object or list: what is longer is no answer
but a report, and nobody knows what else it says."""

_NUMBER = re.compile(r"(?<![\w.,:/-])[-+\u2212]?\d[\d,]*(?:\.\d+)?(?!\.?\d)(?![:/-]\d)")
_REFUSES = re.compile(r"\b(not|no|cannot|unable|failed|error|unknown)\b|n't\b", re.IGNORECASE)
_TRUTH = re.compile(r"(?:^|[:;,])\s*(true|yes|false|no)(?=\s*(?:[.,;:]|$))", re.IGNORECASE)
_MOST = r"max(?:imum)?|highest|best|largest|greatest|most|warmest|hottest"
_LEAST = r"min(?:imum)?|lowest|worst|smallest|least|coldest|coolest"
_APART = r"difference|range|spread|gap"
_MARKS = re.compile(rf"\b(?:(?P<most>{_MOST})|(?P<least>{_LEAST})|(?P<apart>{_APART}))\b", re.IGNORECASE)


def solved(task: Json, value: Any, writes: Iterable[str] = ()) -> bool:
    """Tell whether a value answers a task: it equals the expected output, or a rule of this module takes it.

    Of several parallel steps the parts may stand in their order without names. Where the task is to pick one of
    several, its name will do, with no other beside it.

    Args:
        writes: the tools that change something.
    """
    expected, steps = task["expected"], {step["id"]: step for step in task["gold"]}
    if check(value, expected):
        return True
    final = steps[task["final_step"]]
    if check(expected, final["output"]):
        return _states(final, value, writes) or _tells_both_ends(task, final, value)
    parts = _parts(expected)
    if all(any(check(part, step["output"]) for step in task["gold"]) for part in parts):
        return _states_each(task["gold"], parts, value, writes)
    return _picks(task["gold"], expected, value) or _compares(task, expected, value)


def leaves(value: Any) -> Iterator[Any]:
    """The values in a value that are neither objects nor lists."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


def asked(step: Json) -> set[str]:
    """The fields of a step's response that an answer has to tell."""
    output = step["output"]
    if named := [key for key in ASKED.get(step["tool"], ()) if key in output]:
        return set(named)
    given = [canonical(argument) for argument in step["args"].values()]
    news = {key for key, part in output.items() if canonical(part) not in given}
    return news or output.keys() - step["args"].keys()


def _states(step: Json, value: Any, writes: Iterable[str]) -> bool:
    output = step["output"]
    if check(value, output):
        return True
    if not isinstance(output, dict):
        return False
    wanted = asked(step)
    if isinstance(value, dict) and wanted and wanted <= value.keys() <= output.keys():
        return all(check(part, output[key]) for key, part in value.items())
    if len(wanted) == 1 and _sole(value, output[next(iter(wanted))]):
        return True
    if isinstance(value, dict) and any(key in output and not check(part, output[key]) for key, part in value.items()):
        return False  # a field of the response with another value
    return _tells(step, _text(value), writes)


def _sole(value: Any, wanted: Any) -> bool:
    if isinstance(value, dict) and len(value) == 1 and not isinstance(wanted, dict):
        value = next(iter(value.values()))
    return value not in (None, "", [], {}) and check(value, wanted)


def _parts(expected: Any) -> list[Any]:
    return (
        list(expected.values())
        if isinstance(expected, dict)
        else expected
        if isinstance(expected, list)
        else [expected]
    )


def _states_each(gold: Sequence[Json], parts: list[Any], value: Any, writes: Iterable[str]) -> bool:
    stated = _parts(value) if isinstance(value, dict | list) else []
    steps = [next(step for step in gold if check(part, step["output"])) for part in parts]
    if len(stated) == len(steps) and all(_states(step, one, writes) for step, one in zip(steps, stated, strict=True)):
        return True
    text, tools = _text(value), {step["tool"] for step in steps}
    if not _are_known(text, steps):
        return False
    if len(tools) == len(steps):
        return all(_holds(step, text, writes) for step in steps)
    return len(tools) == 1 and all(_tells(step, own, writes) for step, own in _by_name(steps, text))


def _picks(gold: Sequence[Json], expected: Json, value: Any) -> bool:
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


# Said in any form ---------------------------------------------------------------------------------------------------


def said(value: Any) -> str:
    """A value as one text: the fields of an object after their names, the items of a list one after the other."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {said(part)}" for key, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(said, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _text(value: Any) -> str:
    """What an answer says, to look for values in it; nothing where an object or list holds whole sentences."""
    nested = isinstance(value, dict | list)
    long = nested and any(isinstance(leaf, str) and len(leaf.split()) > MOST_OF_A_PART for leaf in leaves(value))
    return "" if long else said(value)


def _tells(step: Json, text: str, writes: Iterable[str]) -> bool:
    """Whether a text tells what a step is asked for, and no number that is not of this step."""
    return _are_known(text, [step]) and _holds(step, text, writes)


def _holds(step: Json, text: str, writes: Iterable[str]) -> bool:
    if step["tool"] in writes:
        made = [part for key, part in step["output"].items() if key.endswith("_id") and part]
        return any(_has(text, part) for part in made) or any(
            CONFIRMS.search(key) and check(text, part) for key, part in step["output"].items()
        )
    wanted = [leaf for key in sorted(asked(step)) for leaf in leaves(step["output"][key]) if leaf is not None]
    there = _numbers(text)
    for figure in filter(_is_number, wanted):  # each by a number of its own: two may be nearly equal
        near = sorted((number for number in there if check(number, figure)), key=lambda number: abs(number - figure))
        if not near:
            return False
        there.remove(near[0])
    return bool(wanted) and all(_has(text, leaf) for leaf in wanted if not _is_number(leaf))


def _has(text: str, leaf: Any) -> bool:
    if isinstance(leaf, bool):
        said_so = {word.casefold() for word in _TRUTH.findall(text)}
        return said_so <= ({"true", "yes"} if leaf else {"false", "no"}) and bool(said_so)
    if isinstance(leaf, int | float):
        return any(check(number, leaf) for number in _numbers(text))
    short = len(leaf) <= 2  # "A" is a type of record, and "a" a word
    pattern = re.escape(" ".join(leaf.split()) if short else " ".join(leaf.casefold().split()))
    return bool(pattern) and bool(
        re.search(rf"(?<!\w){pattern}(?!\w)", " ".join(text.split() if short else text.casefold().split()))
    )


def _numbers(text: str) -> list[float]:
    found = (match.strip(",").replace(",", "").replace("\u2212", "-") for match in _NUMBER.findall(text))
    return [float(number) for number in found if number.strip("+-")]


def _are_known(text: str, steps: Sequence[Json], besides: Iterable[Any] = ()) -> bool:
    """Whether a text is short, refuses nothing, and has no number but those of some steps."""
    known = [leaf for step in steps for part in (step["output"], step["args"]) for leaf in leaves(part)]
    texts = sorted({leaf for leaf in known if isinstance(leaf, str) and len(leaf) > 1}, key=len, reverse=True)
    rest = " ".join(text.split())
    for one in texts:
        rest = re.sub(rf"(?<!\w){re.escape(' '.join(one.split()))}(?!\w)", " ", rest, flags=re.IGNORECASE)
    figures = [leaf for leaf in known if isinstance(leaf, int | float) and not isinstance(leaf, bool)]
    figures += [number for one in texts if len(numbers := _numbers(one)) == 1 for number in numbers]
    return (
        len(re.findall(r"[^\W\d]+", rest)) <= MOST_WORDS
        and (not _REFUSES.search(rest) or any(isinstance(leaf, bool) for leaf in known))
        and all(any(check(number, leaf) for leaf in (*figures, *besides)) for number in _numbers(rest))
    )


def _by_name(steps: Sequence[Json], text: str) -> list[tuple[Json, str]]:
    """Steps of one tool, each with what is said of it: behind its own name, up to the next name or superlative."""
    names = [_own_name(step, steps) for step in steps]
    if not all(names):
        return [(step, "") for step in steps]
    own = {name.casefold(): "" for name in names if name}
    marks = rf"\b(?:{'|'.join(map(re.escape, own))}|{_MOST}|{_LEAST}|{_APART})\b"
    places = [*re.finditer(marks, text, re.IGNORECASE)]
    for place, following in zip(places, [*places[1:], None], strict=False):
        if (name := place[0].casefold()) in own:
            own[name] += " " + text[place.end() : following.start() if following else len(text)]
    return [(step, own[name.casefold()]) for step, name in zip(steps, names, strict=True) if name]


def _own_name(step: Json, steps: Sequence[Json]) -> str | None:
    """The argument that tells a step from others of its tool."""
    others = [leaf for other in steps if other is not step for leaf in leaves(other["args"])]
    return next((leaf for leaf in leaves(step["args"]) if isinstance(leaf, str) and leaf and leaf not in others), None)


def _marked(text: str) -> dict[str, str]:
    """What is said to be the most, the least, and how far these are apart: each up to the next such word."""
    found = dict.fromkeys(("most", "least", "apart"), "")
    places = [*_MARKS.finditer(text)]
    for place, following in zip(places, [*places[1:], None], strict=False):
        found[str(place.lastgroup)] += " " + text[place.end() : following.start() if following else len(text)]
    return found


# Compare, and both ends ---------------------------------------------------------------------------------------------


def _compares(task: Json, expected: Any, value: Any) -> bool:
    """Whether a value tells what is to be compared of each of several alike, where the text only says to compare."""
    if not re.search(r"\bcompar", task.get("query", ""), re.IGNORECASE) or not isinstance(expected, dict):
        return False
    figures = [part for part in expected.values() if isinstance(part, int | float) and not isinstance(part, bool)]
    steps = [step for step in task["gold"] if isinstance(step["output"], dict)]
    if len(figures) != 1 or len(steps) < 2 or len({step["tool"] for step in steps}) != 1:
        return False
    keys = {key for step in steps for key, part in step["output"].items() if _is_number(part) and part == figures[0]}
    key = next((k for k in steps[0]["output"] if k in keys and all(k in step["output"] for step in steps)), None)
    if key is None:
        return False
    text, ranked = _text(value), sorted(steps, key=lambda step: step["output"][key])
    apart = round(ranked[-1]["output"][key] - ranked[0]["output"][key], 10)
    if not _are_known(text, steps, (apart,)):
        return False
    for step, own in _by_name(steps, text):
        if not _has(own, step["output"][key]) or not _are_known(own, [step]):
            return False
    told = _marked(text)
    return (
        all(_first_name(steps, told[end]) in (None, step) for end, step in (("most", ranked[-1]), ("least", ranked[0])))
        and all(check(number, apart) for number in _numbers(told["apart"])[:1])
    )  # fmt: skip


def _first_name(steps: Sequence[Json], text: str) -> Json | None:
    places = [
        (found.start(), number)
        for number, step in enumerate(steps)
        if (name := _own_name(step, steps)) and (found := re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE))
    ]
    return steps[min(places)[1]] if places else None


def _tells_both_ends(task: Json, final: Json, value: Any) -> bool:
    """Whether a value tells the least and the greatest of several amounts, where the solution formats the greatest."""
    ends = next((step for step in task["gold"] if step["tool"] == "min_max"), None)
    if ends is None or final["tool"] != "format_number" or not check(final["args"]["value"], ends["output"]["max"]):
        return False
    asks = {str(mark.lastgroup) for mark in _MARKS.finditer(task.get("query", ""))}
    if not asks >= {"most", "least"} or final["args"].get("format") != "comma":
        return False
    rates = [step for step in task["gold"] if step["tool"] == "get_exchange_rate"]
    text, told = _text(value), _marked(_text(value))
    if not rates or not _are_known(text, task["gold"]):
        return False
    for end, amount in (("most", ends["output"]["max"]), ("least", ends["output"]["min"])):
        owners = [step for step in rates if check(step["output"]["converted_amount"], amount)]
        other = ends["output"]["min" if end == "most" else "max"]
        wanted = [f"{amount:,.2f}"]
        if re.search(r"\brates?\b", task["query"], re.IGNORECASE):
            wanted += [str(step["output"]["rate"]) for step in owners]
        if not all(_has(told[end], one) for one in wanted) or _has(told[end], f"{other:,.2f}"):
            return False
        if _first_name(rates, told[end]) not in (None, *owners):
            return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# For the self test --------------------------------------------------------------------------------------------------


def other_answers(task: Json, writes: Iterable[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Answers to a task in other forms than its own: right ones, and such that are nearly right."""
    final = next(step for step in task["gold"] if step["id"] == task["final_step"])
    right, near = list[Any](), list[Any]()
    if check(task["expected"], final["output"]) and isinstance(final["output"], dict):
        if final["tool"] in writes:
            right += [part for key, part in final["output"].items() if key.endswith("_id")]
            near += [f"{part}x" for part in right] + ["Done."]
        else:
            told = {key: final["output"][key] for key in sorted(asked(final))}
            right.append(told)
            near += [{**told, key: _spoilt(part)} for key, part in told.items() if part not in (None, [], {}, "")]
            if all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in told.values()):
                right.append(said(told))
                near += [said(one) for one in near] + [f"{said(told)}; and 31337"]
                near += [said({k: p for k, p in told.items() if k != key}) for key in told if len(told) > 1]
    named = [(_own_name(step, task["gold"]), step) for step in task["gold"]]
    if not isinstance(task["expected"], dict) or not all(name for name, _ in named):
        return tuple(right), tuple(near)
    for key in final["output"] if isinstance(final["output"], dict) else ():
        pairs = {str(name): step["output"].get(key) for name, step in named if isinstance(step["output"], dict)}
        if _compares(task, task["expected"], pairs):
            turned = dict(zip(pairs, [*list(pairs.values())[1:], next(iter(pairs.values()))], strict=True))
            right += [pairs, said(pairs), said(dict(reversed(pairs.items())))]
            near += [turned, said(turned), dict(list(pairs.items())[1:])] if len(set(pairs.values())) > 1 else []
    return tuple(right), tuple(near)


def _spoilt(value: Any) -> Any:
    """Another value of the same kind, further off than what is taken for equal."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 + 1
    if isinstance(value, str):
        return f"zz{value}"
    return [_spoilt(part) for part in value] if isinstance(value, list) else {k: _spoilt(p) for k, p in value.items()}
