"""Do models call a kept program that would serve, and what does it save?

``python -m benchmarks.tasks.kept_programs --arm plain|kept --model NAME --out FILE`` tries ten tasks over ``atlas``,
alone or beside five kept programs that would serve; ``--summary FILE`` prints what rows say. The tasks were written for
this question, so they say nothing of what is solved.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from atc import Agent
from atc.atlas import atlas_toolset
from atc.cli.console import guarded, out
from benchmarks.common import ALL, PUBLISHED
from benchmarks.rows import append_line

_TWO: dict[str, Any] = {"from_city": "Oslo", "from_country": "NO", "to_city": "Rome", "to_country": "IT"}
_FOUND = "find_cities(name={0}, country_code={1})['cities'][0]"
_FROM, _TO = _FOUND.format("from_city", "from_country"), _FOUND.format("to_city", "to_country")
KEPT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "day_minutes": (
        "How many minutes the day is long in a city on a date.",
        f"city = {_FOUND.format('city', 'country_code')}\n"
        "answer = sun_times(city_id=city['city_id'], date=date)['day_length_minutes']",
        {"city": "Oslo", "country_code": "NO", "date": "2026-06-21"},
    ),
    "people_of": (
        "How many people live in a city.",
        f"answer = {_FOUND.format('city', 'country_code')}['population']",
        {"city": "Lyon", "country_code": "FR"},
    ),
    "km_between": (
        "The great-circle distance in km between two cities.",
        f"first, second = {_FROM}, {_TO}\n"
        "answer = city_distance(from_city_id=first['city_id'], to_city_id=second['city_id'])",
        _TWO,
    ),
    "local_time_in": (
        "What time it is in one city when it is a local time in another.",
        f"here, there = (get_city(city_id=each['city_id'])['timezone'] for each in ({_FROM}, {_TO}))\n"
        "answer = convert_time(local_time=local_time, from_timezone=here, to_timezone=there)",
        {**_TWO, "local_time": "2026-05-04T09:00"},
    ),
    "holidays_on_weekdays": (
        "How many nation-wide public holidays of a country in a year fall on a Monday to Friday.",
        "days = public_holidays(country_code=country_code, year=year)['holidays']\n"
        "answer = sum(day['weekday'] not in ('Saturday', 'Sunday') for day in days)",
        {"country_code": "DE", "year": 2026},
    ),
}
TASKS = """\
How many minutes longer is the day in Stockholm (SE) than in Madrid (ES) on 2026-06-21?
Which of Lyon (FR), Porto (PT), Graz (AT) and Bergen (NO) has the most inhabitants, and how many?
How far is it from Vienna (AT) to Athens (GR), in km?
It is 2026-11-03T15:30 in Chicago (US). What time is it in Nairobi (KE)?
In which of 2026, 2027 and 2028 does France have the most public holidays that fall on Monday to Friday?
Which day of the first week of March 2026 (1 to 7) is the first on which Helsinki (FI) has more than 650 minutes of day?
I travel Lisbon (PT) - Madrid (ES) - Barcelona (ES) - Milan (IT), in a straight line each time. How many km in all?
How many people per km between them live in Oslo (NO) and Bergen (NO) together, to the nearest whole number?
Our meeting is at 2026-07-14T10:00 in Berlin (DE). List the local time of people in Sydney (AU), Sao Paulo (BR) and \
Los Angeles (US).
How many weekday public holidays do Germany and Austria have together in 2026, and how many people live in their \
capitals together?""".split("\n")


def rows_of(arm: str, model: str, file: Path) -> None:
    """Try each task once, and append a row for it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ATC_KEPT_DIR"] = f"{folder}/kept"  # a kept program in another folder must be trusted first
        options: dict[str, Any] = {"runs_dir": f"{folder}/runs", "sentence": False}
        tools = atlas_toolset()
        if arm == "kept":
            with Agent(tools, approve="always", **options) as agent:
                for name, (about, program, inputs) in KEPT.items():
                    agent.keep(agent.run_program(program, inputs=inputs).run_id, name, about=about, confirm=True)
            tools = tools.with_kept(f"{folder}/kept")
        with Agent(tools, model=model, approve="always", stub_tokens=ALL, **options) as agent:
            for number, task in enumerate(TASKS):
                result = agent.run(task)
                row = {"arm": arm, "task": number, "status": result.status, "model_calls": result.usage.model_calls}
                row |= {"read": result.usage.prompt_tokens, "written": result.usage.completion_tokens}
                row["kept"] = sorted({call.within for call in result.calls if call.within})
                append_line(file, json.dumps(row).encode())


def main(
    arm: Annotated[str, typer.Option(help="`plain` or `kept`.")] = "",
    model: Annotated[str, typer.Option(help="The model that writes.")] = "embedded",
    file: Annotated[Path, typer.Option("--out", help="Where rows are appended.")] = PUBLISHED / "kept" / "large.jsonl",
    summary: Annotated[Path | None, typer.Option(help="Print what the rows of this file say.")] = None,
) -> None:
    if summary is None:
        rows_of(arm, model, file)
        return
    arms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in map(json.loads, summary.read_text().splitlines()):
        arms[row["arm"]].append(row)
    for name, rows in arms.items():
        answered, called = sum(row["status"] == "answered" for row in rows), sum(bool(row["kept"]) for row in rows)
        read, written, calls = (sum(row[key] for row in rows) for key in ("read", "written", "model_calls"))
        out.print(f"{name}: {answered} of {len(rows)} answered, {called} with a kept program")
        out.print(f"    {calls} model calls, {read:,} tokens read, {written:,} written")


if __name__ == "__main__":
    typer.run(guarded(main))
