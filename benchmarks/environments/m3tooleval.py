"""M3ToolEval (Wang et al. 2024, MIT): 36 of its tasks in five domains, over tools written anew from their signatures.

The tools' names, descriptions and signatures, the flights, hotels and web pages come from the data directory. What the
tools compute is here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import Example, JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.atlas_tasks import check
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, Task, calculate, served

Function = Callable[..., Any]

LINES_A_VIEW = 5
CODONS = {"AUG": "Methionine", "UUU": "Phenylalanine", "UUC": "Phenylalanine"}
"""As far as the recorded calls show; any other codon is ``X``."""
PLACES = "ABCDEF"
_TRANSCRIBED = dict(zip("ATCG", "UAGC", strict=True))
_REVERSED = dict(zip("AUCG", "TAGC", strict=True))


class M3ToolEval(Environment):
    """The tasks of M3ToolEval; an answer is the expected value, numbers with a tolerance of 0.5 % or 0.01.

    Args:
        data: the directory with ``executable/m3tooleval``.
    """

    name = "m3tooleval"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name)
        self._records: dict[str, dict[str, Any]] | None = None

    def tasks(self) -> list[Task]:
        site = self._browser().linked_text()
        return [
            Task(r["id"], r["query"].strip(), tuple(map(tool_name, r["tools"])), stated=_reachable(r, site))
            for r in self._read().values()
        ]

    def open(self, task: Task) -> Episode:
        record = self._read()[task.id]
        return Episode(self.toolset(record["group"]).only(*task.tools), lambda value: right(value, record["expected"]))

    def gold(self, task: Task) -> Gold:
        """The answer alone: the data names no calls."""
        return Gold((), self._read()[task.id]["expected"])

    def toolset(self, domain: str) -> Toolset:
        """The tools of one domain, with a state of their own."""
        functions = self.functions(domain)
        tools = [line for line in self._data.lines("tools.jsonl.gz") if line["group"] == domain]
        return Toolset(_tool(line, functions[line["name"]]) for line in tools)

    def functions(self, domain: str) -> dict[str, Function]:
        """What the tools of a domain compute, by the names that the data has for them; positional arguments."""
        made: dict[str, Callable[[], dict[str, Function]]] = {
            "message_decoder": _decoder,
            "cryptobotanists_plant_dna_sequencer": _sequencer,
            "trade_calculator": _trade,
            "travel_itinerary_planning": lambda: Travel(self._state()["travel"]).functions(),
            "web_browsing": lambda: self._browser().functions(),
        }
        return made[domain]()

    def _browser(self) -> Browser:
        return Browser({page["name"]: page["content"] for page in self._state()["web_pages"]})

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._data.document("state.json.gz")
        return state

    def _read(self) -> dict[str, dict[str, Any]]:
        if self._records is None:
            self._records = {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}
        return self._records


def _reachable(record: dict[str, Any], site: str) -> bool:
    """Whether links lead to the answer: the site has a dead one, and a text behind it can only be guessed at."""
    expected = record["expected"]
    return record["group"] != "web_browsing" or not isinstance(expected, str) or expected in site


def right(value: Any, expected: Any) -> bool:
    """Tell whether an answer is the expected one; a sole item of a list or object stands for itself."""
    if isinstance(value, dict | list) and len(value) == 1 and not isinstance(expected, dict | list):
        value = next(iter(value.values() if isinstance(value, dict) else value))
    if isinstance(expected, float | int) and isinstance(value, str):
        value = value.replace("$", "")
    return check(value, expected)


# Protocols ----------------------------------------------------------------------------------------------------------

_TYPES: dict[str, JsonSchema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "dict": {"type": "object"},
    "int/float": {"type": "number"},
    "(str, int)": {"type": "array"},
    "List[Dict]": {"type": "array", "items": {"type": "object"}},
}
# Signatures that say less than their descriptions: the real parameters.
_PARAMETERS = {
    "find_flights": "from_location: str, to_location: str, date: str",
    "find_max_nucleotide": "*nucleotide_counts",
}


def _tool(line: dict[str, Any], function: Function) -> Tool:
    name, (parameters, returns) = line["name"], _parts(line)
    description, _, example = line["description"].partition("\nExample: ")
    properties = {parameter: schema for parameter, schema, _ in parameters}
    protocol = Protocol(
        name=tool_name(name),
        description=description,
        effect=Effect.READ,
        returns=_TYPES[returns],
        examples=(Example(response=json.loads(example)),) if example else (),
        parameters={
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            "required": [parameter for parameter, _, many in parameters if not many or len(parameters) == 1],
        },
        source=Source(location="m3tooleval", operation=name),
        provenance=Provenance.IMPORTED,
    )

    def answer(arguments: dict[str, Any]) -> Any:
        positional: list[Any] = []
        for parameter, _, many in parameters:
            given = arguments.get(parameter, []) if many else [arguments[parameter]]
            positional += given
        try:
            return function(*positional)
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            raise ToolError(f"{type(error).__name__}: {error}", status="invalid") from None

    return served(protocol, answer)


def _parts(line: dict[str, Any]) -> tuple[list[tuple[str, JsonSchema, bool]], str]:
    """The parameters (name, schema, whether it takes any number of values) and the type of the answer."""
    match = re.fullmatch(r"\w+\((.*)\) -> (.+)", line["signature"])
    assert match is not None, line["signature"]
    text = _PARAMETERS.get(line["name"], match[1])
    return [_parameter(part) for part in text.split(", ") if part], match[2]


def _parameter(text: str) -> tuple[str, JsonSchema, bool]:
    name, _, kind = text.partition(": ")
    if not name.startswith("*"):
        return name, _TYPES[kind], False
    name = "values" if name == "*args" else name[1:]
    return name, {"type": "array", "items": _TYPES.get(kind, {}), "description": "all the values, in one list"}, True


# What the tools compute ---------------------------------------------------------------------------------------------


def _decoder() -> dict[str, Function]:
    return {
        "convert_hex_to_ascii": lambda text: bytes.fromhex(text).decode("ascii"),
        "reverse_string": lambda text: "".join(reversed(text)),
        "caesar_decode": lambda text, shift: "".join(_shifted(char, shift) for char in text),
        "string_length": len,
        "minimum_value": lambda *values: min(values),
        "maximum_value": lambda *values: max(values),
    }


def _shifted(char: str, shift: int) -> str:
    if not (char.isascii() and char.isalpha()):
        return char
    first = ord("A" if char.isupper() else "a")
    return chr((ord(char) - first - shift) % 26 + first)


def _sequencer() -> dict[str, Function]:
    return {
        "count_nucleotides": lambda dna: dict(Counter(dna)),
        "transcribe_dna_to_mrna": lambda dna: "".join(_TRANSCRIBED[base] for base in dna),
        "reverse_transcribe_mrna_to_dna": lambda mrna: "".join(_REVERSED[base] for base in mrna),
        "translate_mrna_to_amino_acid": _translated,
        "find_max_nucleotide": _most,
        "is_valid_dna_sequence": lambda dna: set(dna) <= set("ACGT"),
    }


def _translated(mrna: str) -> str:
    return "-".join(CODONS.get(mrna[start : start + 3], "X") for start in range(0, len(mrna), 3))


def _most(*counts: Any) -> list[Any]:
    if len(counts) < 2:
        raise ValueError("max() arg is an empty sequence")
    best = max(range(0, len(counts) - 1, 2), key=lambda at: counts[at + 1])
    return [counts[best], counts[best + 1]]


def _trade() -> dict[str, Function]:
    return {
        "convert_currency": lambda price, rate: price * rate,
        "calculate_tariff": lambda price, rate: price * rate / 100,
        "estimate_final_value": lambda price, tariff: price + tariff,
        "calculator": calculate,
        "find_minimum": lambda *values: min(values),
        "find_maximum": lambda *values: max(values),
    }


class Travel:
    """Flights and hotels to look up. The data writes a place in quotes: ``'"A"'``."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._flights, self._hotels = state["flights"], state["hotels"]

    def functions(self) -> dict[str, Function]:
        return {
            "find_flights": self.find_flights,
            "book_hotel": self.book_hotel,
            "budget_calculator": lambda flight, night, nights: flight + night * nights,
            "max": lambda *values: max(values),
            "min": lambda *values: min(values),
            "sum": lambda *values: sum(values),
        }

    def find_flights(self, source: str, destination: str, date: str) -> list[dict[str, Any]]:
        wanted = (_place(source, "Source", "from"), _place(destination, "Destination", "to"), date)
        return [f for f in self._flights if (f["from_location"], f["to_location"], f["date"]) == wanted]

    def book_hotel(self, location: str, *preferences: str) -> list[dict[str, Any]]:
        place, wanted = _place(location, "Location", ""), set(preferences)
        return [hotel for hotel in self._hotels if hotel["location"] == place and wanted <= set(hotel["preferences"])]


def _place(name: str, what: str, side: str) -> str:
    quoted = f'"{name.strip(chr(34))}"'
    supported = [f'"{place}"' for place in PLACES]
    if quoted not in supported:
        raise ValueError(
            f"{what} [{name}] is not supported. Supported {side + '_' if side else ''}locations: {supported}"
        )
    return quoted


class Browser:
    """One window of a few lines on a small site."""

    def __init__(self, pages: dict[str, str]) -> None:
        self._pages, self._page, self._top = pages, "/", 0
        self._before: list[str] = []

    def functions(self) -> dict[str, Function]:
        return {
            "click_url": self.click_url,
            "go_to_previous_page": self.go_to_previous_page,
            "scroll_down": lambda: self._scroll(1),
            "scroll_up": lambda: self._scroll(-1),
            "view": self.view,
            "calculator": calculate,
        }

    def view(self) -> str:
        lines = self._lines()
        shown = "\n".join(lines[self._top * LINES_A_VIEW : (self._top + 1) * LINES_A_VIEW])
        where = f"[Web Page Name: {self._page}]\n[Viewing page {self._top + 1} of {self._views()}]"
        return f"{'-' * 10}\n{where}\n\n{shown}\n{'-' * 10}"

    def click_url(self, url: str) -> str:
        if url not in self._pages:
            return "[URL not found.]"
        self._before.append(self._page)
        return self._open(url)

    def go_to_previous_page(self) -> str:
        return self._open(self._before.pop()) if self._before else "[No previous page.]"

    def linked_text(self) -> str:
        """All that can be read by following links from the first page."""
        found, waiting = dict[str, str](), ["/"]
        while waiting:
            page = waiting.pop()
            if page in self._pages and page not in found:
                found[page] = self._pages[page]
                waiting += re.findall(r"\[Clickable '(.+?)'\]", found[page])
        return "\n".join(found.values())

    def _open(self, page: str) -> str:
        self._page, self._top = page, 0
        return f"[Opened page: {page}]\n{self.view()}"

    def _scroll(self, by: int) -> str:
        self._top = min(max(0, self._top + by), self._views() - 1)
        return self.view()

    def _lines(self) -> list[str]:
        return self._pages[self._page].split("\n")

    def _views(self) -> int:
        return -(-len(self._lines()) // LINES_A_VIEW)
