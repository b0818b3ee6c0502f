"""Five thousand tools, of which a task needs two: they are indexed, searched and used.

python examples/thousands_of_tools.py
"""

import time
from itertools import product
from typing import TypedDict

from atc import Agent, Effect, Protocol, Tool, Toolset, tool
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.retriever import IndexRetriever

SERVICES = "billing payroll warehouse helpdesk calendar library fleet hotel clinic school bakery garden".split()
VERBS = "list get search count export archive create update approve cancel".split()
THINGS = (
    "invoices contracts shipments tickets meetings loans vehicles rooms patients courses recipes plants members "
    "suppliers discounts reminders refunds forms reports notes photos keys badges audits budgets policies surveys "
    "permits deliveries returns quotes subscriptions warranties inspections rosters allergies grants menus lockers "
    "tools parcels visits"
).split()


class Trail(TypedDict):
    trail_id: int
    name: str


class Profile(TypedDict):
    length_km: float
    climb_m: int


@tool(effect="read")
def find_trails(name: str) -> list[Trail]:
    """Find hiking trails by name."""
    return [{"trail_id": 7, "name": "Heron Ridge"}] if name == "Heron Ridge" else []


@tool(effect="read")
def get_trail_profile(trail_id: int) -> Profile:
    """Get the length of a hiking trail, and how many metres it climbs."""
    return {"length_km": 11.4, "climb_m": 640}


def made_up(service: str, verb: str, thing: str) -> Tool:
    """A tool that can be found and shown; nothing stands behind it."""
    protocol = Protocol(
        name=f"{service}_{verb}_{thing}",
        description=f"{verb.capitalize()} {thing} of the {service}.",
        parameters={"type": "object", "properties": {"page": {"type": "integer"}}},
        returns={"type": "object", "properties": {thing: {"type": "array"}}},
        effect=Effect.READ if verb in VERBS[:5] else Effect.WRITE,
    )
    return Tool(protocol)


def catalogue() -> Toolset:
    """All of them: the two real ones last."""
    return Toolset(made_up(*each) for each in product(SERVICES, VERBS, THINGS)) + Toolset.from_functions(
        find_trails, get_trail_profile
    )


if __name__ == "__main__":
    task = "How many metres does the hiking trail Heron Ridge climb? Answer with the number."
    tools = catalogue()
    began = time.perf_counter()
    index = ToolIndex.build(tools)  # by words; with encoder=MiniLM() by meaning too
    print(f"{len(tools):,} tools indexed in {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    found = [hit.id for hit in index.search(task, limit=3)]
    print(f"searched in {1000 * (time.perf_counter() - began):.0f} ms: {', '.join(found)}")
    with Agent(tools, retriever=IndexRetriever(index)) as agent:
        result = agent.run(task)
    offered = result.sketch.tools if result.sketch else ()
    print(f"the model was offered {len(offered)} tools: {', '.join(offered)}")
    print(result.status, result.value)
