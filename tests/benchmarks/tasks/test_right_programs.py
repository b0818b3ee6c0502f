"""A task's own solution as a program: what the task says as it is, what a response gave from there."""

from __future__ import annotations

import asyncio

from atc import Toolset, tool
from benchmarks.environments import Environment, Episode, Gold, Task
from benchmarks.tasks.right_programs import right_program


class Accounts(Environment):
    name = "accounts"

    def tasks(self) -> list[Task]:
        return [Task("close", "Close the account of Ann.", ("find", "close"))]

    def open(self, task: Task) -> Episode:
        @tool(effect="read")
        def find(name: str) -> dict[str, list[str]]:
            """Find accounts."""
            return {"ids": ["a-901"]}

        @tool(effect="write")
        def close(account_id: str) -> bool:
            """Close an account."""
            return account_id == "a-901"

        return Episode(Toolset.from_functions(find, close), bool)

    def gold(self, task: Task) -> Gold:
        return Gold((("find", {"name": "Ann"}), ("close", {"account_id": "a-901"})))


def test_a_solution_is_written_as_a_program() -> None:
    environment = Accounts()
    made = asyncio.run(right_program(environment, environment.tasks()[0]))
    assert made.source == "r0 = find(name='Ann')\nr1 = close(account_id=r0['ids'][0])\nanswer = r1"
    assert made.not_given == {}


def test_values_that_nothing_gives_are_told_by_their_lines() -> None:
    class Bare(Accounts):
        def gold(self, task: Task) -> Gold:
            return Gold((("find", {"name": "Close"}), ("close", {"account_id": "b-17"})))

    made = asyncio.run(right_program(Bare(), Bare().tasks()[0]))
    assert made.source == "r0 = find(name='Close')\nr1 = close(account_id='b-17')\nanswer = r1"
    assert made.not_given == {2: ["b-17"]}
