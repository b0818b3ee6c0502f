"""The small services: their documents, and their own solutions."""

from __future__ import annotations

import asyncio

import pytest

from atc.errors import ToolError
from benchmarks.environments.self_test import judge, play
from benchmarks.environments.services import Library, Shop
from benchmarks.environments.shops import ServiceEnvironment, environments


@pytest.mark.parametrize("environment", environments(), ids=lambda each: each.name)
def test_own_solutions_are_right_and_spoilt_ones_are_not(environment: ServiceEnvironment) -> None:
    verdict = asyncio.run(judge(environment))
    assert (verdict.without, verdict.unsolved, verdict.taken) == ([], [], [])


def test_a_document_is_that_of_a_web_framework() -> None:
    operation = Library.document()["paths"]["/authors/{author_id}/books"]["get"]
    assert operation["operationId"] == "books_of_author_authors__author_id__books_get"
    assert operation["parameters"] == [
        {"name": "author_id", "in": "path", "required": True, "schema": {"type": "integer"}}
    ]
    tools = Shop().toolset()
    assert tools["change_stock"].protocol.required == ("product_id", "delta")
    assert {each.protocol.effect.value for each in tools.values()} == {"read", "write"}


def test_a_service_refuses_what_is_not_there_and_keeps_its_tables_to_itself() -> None:
    one, other = Shop(), Shop()
    one.answer("change_stock", {"product_id": 6, "delta": -2})
    assert (one.products[6].stock, other.products[6].stock) == (1, 3)
    with pytest.raises(ToolError, match="404: no such product"):
        one.answer("get_product", {"product_id": 99})
    with pytest.raises(ToolError, match="409: only 1 left"):
        one.answer("create_order", {"customer_id": 3, "lines": [{"product_id": 6, "quantity": 2}]})
    with pytest.raises(ToolError, match="422"):
        one.answer("get_product", {"product_id": "six"})


@pytest.mark.parametrize(
    ("lines", "unasked"),
    [
        ([{"product_id": 6, "quantity": 2}], 0),
        ([{"product_id": 7, "quantity": 2}], 1),
    ],
)
def test_a_write_to_another_row_is_one_that_nobody_asked_for(lines: list[dict[str, int]], unasked: int) -> None:
    environment = ServiceEnvironment(Shop)
    episode = environment.open(environment.tasks()[1])
    asyncio.run(play(episode, [("create_order", {"customer_id": 3, "lines": lines})]))
    assert episode.forbidden_writes == unasked
    assert episode.check(13) is not bool(unasked)
