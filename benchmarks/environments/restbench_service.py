"""Services that answer from a recorded example, or from the schema of their response. They hold no state but names.

* An answer begins as the endpoint's recorded example, where there is one, else as a value of its schema that tool and
  arguments determine (:func:`~benchmarks.environments.restbench_schemas.made`).
* What was asked for is put in: a field that is named as an argument has the argument's value; a thing that is asked for
  by its identifier has that identifier, and the name that it had when it was found; a search finds a thing of that name
  first, under an identifier of its own; everything is on the first page; a crew has a director.
* Any identifier of the right type is known, so that no call depends on what the records happen to hold.
* Missing arguments and wrong ones get 400, 404 or 422 and a message that names the argument. Unknown ones are ignored,
  as query strings are. Writes answer as documented and change nothing.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import ToolError
from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.validate import problems, types_of
from benchmarks.environments.restbench_schemas import made, number

Json = dict[str, Any]

SEARCHED = frozenset({"q", "query", "text"})
"""Arguments with the name of what is looked for."""
NAMES = ("name", "title")
MISSING_STATUS = {"tmdb": 422, "weather": 422}
"""What services say to a missing or wrong argument, if not 400."""
EITHER = (("place_id", "lat"), ("ids", "body"), ("uris", "body"))
"""Two ways to say the same; services document both as optional and want one."""
DIRECTOR, DIRECTED = {"job": "Director", "department": "Directing"}, 3
"""Half the tasks ask who directed something, or what somebody directed; the recorded actor directed nothing."""

_IDENTIFIER = re.compile(r"(^|_)id$")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_FILTER = re.compile(r"\b(track|artist|album|playlist):\s*\"?([^:\"]+?)\"?(?=\s+\w+:|\s*$)")
_MINE = re.compile(r"\bmy (?:playlist )?(?:'([^']+)'|\"([^\"]+)\")")


@dataclass(frozen=True)
class Operation:
    """An operation of a service.

    Attributes:
        protocol: what is told of it.
        service: whose it is.
        path: with parameters in braces.
        response: the schema of its response, whole and plain; ``None`` where it answers with nothing.
        recorded: a response of the real service; ``None`` where there is none.
    """

    protocol: Protocol
    service: str
    path: str
    response: JsonSchema | None
    recorded: Any = None

    @property
    def identifier(self) -> str | None:
        """The argument that names the thing that is asked for."""
        inside = re.findall(r"{(\w+)}", self.path)
        last = inside[-1] if inside else "id" if "id" in self.protocol.parameters["properties"] else ""
        return last if _IDENTIFIER.search(last) else None


@dataclass
class Simulator:
    """What answers during one episode.

    Args:
        task: the task's text: the user's own playlists have the names that it gives them.
        today: the first day of all forecasts; ``None`` where days stay as recorded.
    """

    task: str = ""
    today: date | None = None
    _found: dict[str, Json] = field(default_factory=dict)

    def answer(self, operation: Operation, arguments: Json) -> Any:
        """What the service answers.

        Raises:
            ToolError: an argument is missing or wrong.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        _check(operation, given)
        if operation.recorded is not None:
            answer = copy.deepcopy(operation.recorded)
        elif operation.response is None:
            return None
        else:
            answer = made(operation.response, f"{operation.protocol.name}/{canonical(given)}")
        self._put_in(operation, answer, given)
        answer = _page(answer, given)
        if self.today is not None:
            answer = _moved(answer, given.get("date"), self.today)
        for thing in _objects(answer):
            self._found.setdefault(str(thing["id"]), {n: thing[n] for n in NAMES if isinstance(thing.get(n), str)})
        return answer

    def _put_in(self, operation: Operation, answer: Any, given: Json) -> None:
        words = next((given[name] for name in sorted(SEARCHED & given.keys())), None)
        if isinstance(words, str) and words:
            _name_first(answer, words, dict(_FILTER.findall(words)))
        if operation.path == "/me/playlists":
            names = [one or other for one, other in _MINE.findall(self.task)]
            for playlist, name in zip(answer.get("items", ()), names, strict=False):
                playlist["name"] = name
        if not isinstance(answer, dict):
            return
        crew: list[Json] = answer.get("crew") or []
        if _is_list_of_objects(crew) and not any(person.get("job") == DIRECTOR["job"] for person in crew):
            for person in crew[:DIRECTED]:
                person.update({key: text for key, text in DIRECTOR.items() if key in person})
        _choose(answer, operation, given)
        for name, value in given.items():
            if name in answer and _same_kind(answer[name], value):
                answer[name] = _cast(answer[name], value)
        if operation.identifier in given:
            thing = next((one for one in (answer, *answer.values()) if isinstance(one, dict) and "id" in one), None)
            if thing is not None:
                _identify(thing, _cast(thing["id"], given[operation.identifier]))
                known = self._found.get(str(thing["id"]), {})
                thing.update({name: text for name, text in known.items() if isinstance(thing.get(name), str)})


# Arguments ----------------------------------------------------------------------------------------------------------


def _check(operation: Operation, given: Json) -> None:
    """Raises ToolError where an argument is missing or wrong."""
    protocol, status = operation.protocol, MISSING_STATUS.get(operation.service, 400)
    properties = protocol.parameters["properties"]
    for name, value in given.items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:  # half a character, no number, a number without end
            raise ToolError(f"the value of {name} cannot be read", status=status) from None
    for name in protocol.required:
        if given.get(name) in (None, "", [], {}):
            raise ToolError(f"{name} must be provided: it is required", status=status)
    for pair in EITHER:
        if set(pair) <= properties.keys() and not set(protocol.required) & set(pair) and not given.keys() & set(pair):
            raise ToolError(f"{pair[0]} must be provided, or else {pair[1]}", status=status)
    for name, value in given.items():
        if name in properties and not _fits(value, properties[name]):
            kind = " or ".join(sorted(types_of(properties[name])))
            allowed = properties[name].get("enum") or properties[name].get("items", {}).get("enum")
            words = f"one of {', '.join(map(str, allowed))}" if allowed else f"of type {kind}"
            raise ToolError(f"the value of {name} is not valid: it must be {words}", status=status)
    name = operation.identifier or ""
    if name in given and _typed_id(operation.recorded) is int and not re.fullmatch(r"\d{1,18}", str(given[name])):
        raise ToolError(f"the resource you requested could not be found: no such {name}", status=404)


def _fits(value: Any, schema: JsonSchema) -> bool:
    """Whether a value is of a type, or the text of one: queries and paths are text."""
    kinds = types_of(schema)
    if schema.get("enum") and value not in schema["enum"]:
        return False
    if isinstance(value, bool):
        return bool(kinds & {"boolean", "string"}) or not kinds
    if isinstance(value, dict | list):
        if isinstance(value, dict) or "array" in kinds:
            return not problems(schema, value)
        return "string" in kinds and all(isinstance(item, str | int) for item in value)
    if kinds & {"integer", "number"} and "string" not in kinds:
        return bool(re.fullmatch(r"-?\d+" if "number" not in kinds else r"-?\d+(\.\d+)?", str(value)))
    if kinds == {"boolean"}:
        return str(value) in ("true", "false")
    if "array" in kinds:  # items between commas
        return isinstance(value, str) and not problems(schema, [part.strip() for part in value.split(",")])
    return kinds != {"object"}


def _typed_id(recorded: Any) -> type | None:
    things = [recorded, *recorded.values()] if isinstance(recorded, dict) else []
    return next((type(one["id"]) for one in things if isinstance(one, dict) and "id" in one), None)


# Answers ------------------------------------------------------------------------------------------------------------


def _same_kind(old: Any, new: Any) -> bool:
    if isinstance(old, bool) or old is None or isinstance(new, bool | dict | list):
        return isinstance(old, bool) and isinstance(new, bool)
    return isinstance(old, str) or (isinstance(old, int | float) and bool(re.fullmatch(r"-?\d{1,18}", str(new))))


def _cast(old: Any, new: Any) -> Any:
    if isinstance(old, bool) or isinstance(new, bool):
        return new
    return int(new) if isinstance(old, int) and re.fullmatch(r"-?\d{1,18}", str(new)) else str(new)


def _identify(thing: Json, identifier: Any) -> None:
    old, thing["id"] = str(thing["id"]), identifier
    for key, value in thing.items():
        if isinstance(value, str) and len(old) > 2 and old in value:
            thing[key] = value.replace(old, str(identifier))


def _name_first(value: Any, words: str, filters: Json) -> None:
    groups = isinstance(value, list) and any(
        _is_list_of_objects(part)
        for item in value
        if isinstance(item, dict) and not _named(item)
        for part in item.values()
    )
    if isinstance(value, dict) or groups:
        for part in value.values() if isinstance(value, dict) else value:
            _name_first(part, words, filters)
    elif _is_list_of_objects(value):
        _name(value, words, filters)


def _name(found: list[Json], words: str, filters: Json) -> None:
    things = [thing for item in found if (thing := _thing(item)) is not None]
    if not things or any(words.casefold() in str(thing[_named(thing)]).casefold() for thing in things):
        return
    wanted = filters.get(things[0].get("type", "track"), words)
    things[0][_named(things[0])] = wanted
    for key in ("id", "place_id"):
        old = things[0].get(key)
        if key == "id" and isinstance(old, int):
            _identify(things[0], 100_000 + number(words, str(old)) % 10**6)
        elif key == "place_id" and isinstance(old, str):
            things[0][key] = re.sub(r"\W+", "-", words.casefold()).strip("-")
    for artist in things[0].get("artists") or ():
        if isinstance(artist, dict) and _named(artist):
            artist["name"] = filters.get("artist", words)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _named(thing: Json) -> str:
    return next((name for name in NAMES if isinstance(thing.get(name), str)), "")


def _thing(item: Json) -> Json | None:
    if _named(item):
        return item
    return next((part for part in item.values() if isinstance(part, dict) and _named(part)), None)


def _choose(answer: Json, operation: Operation, given: Json) -> None:
    """Leave out the sections of a search that were not asked for: ``type=track`` gives no ``albums``."""
    asked, items = given.get("type"), operation.protocol.parameters["properties"].get("type", {}).get("items", {})
    if asked and items.get("enum"):
        kinds = asked.split(",") if isinstance(asked, str) else asked
        for kind in items["enum"]:
            if kind not in [str(one).strip() for one in kinds]:
                answer.pop(f"{kind}s", None)


def _page(answer: Any, given: Json) -> Any:
    """The part of an answer's lists that was asked for; there is nothing beyond the first page."""
    size = next((_whole(given[n], 1000) for n in ("limit", "per_page", "number") if n in given), 1000)
    beyond = _whole(given.get("page", 1), 1) > 1

    def cut(items: list[Any]) -> list[Any]:
        return [] if beyond else items[_whole(given.get("offset", 0), 0) :][: max(size, 1)]

    if isinstance(answer, list):
        return cut(answer)
    if not isinstance(answer, dict) or not given.keys() & {"page", "limit", "per_page", "number", "offset"}:
        return counted(answer)
    for holder in (answer, *(part for part in answer.values() if isinstance(part, dict))):
        for key, part in holder.items():
            if _is_list_of_objects(part):
                holder[key] = cut(part)
    return counted(answer)


def counted(answer: Any) -> Any:
    """An answer that says that it is on one page."""
    if isinstance(answer, dict):
        if isinstance(answer.get("results"), list) and "total_pages" in answer:
            answer |= {"total_pages": 1, "total_results": len(answer["results"])}
        answer |= dict.fromkeys(answer.keys() & {"next_page", "next_cursor"})
    return answer


def _whole(value: Any, otherwise: int) -> int:
    return int(value) if re.fullmatch(r"\d{1,9}", str(value)) else otherwise


def _moved(answer: Any, asked: Any, today: date) -> Any:
    first = _DAY.search(json.dumps(answer))
    try:
        start = date.fromisoformat(asked) if isinstance(asked, str) else today
        days = start - date.fromisoformat(first[0]) if first else timedelta()
    except ValueError:
        raise ToolError("the value of date is not valid: it must be a day as YYYY-MM-DD", status=422) from None
    return _each_text(answer, lambda part: _DAY.sub(lambda day: _shifted(day[0], days), part))


def _shifted(day: str, days: timedelta) -> str:
    try:
        return str(date.fromisoformat(day) + days)
    except (ValueError, OverflowError):
        return day


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _each_text(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_each_text(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        if "id" in value and _named(value):
            yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _objects(part)
