"""ToolRet's 35 data sets (Shi et al. 2025), and what of them this project's data has (ToolQP §4.1, Tab. 1).

ToolRet itself cannot be had here, and ToolQP's figures are over its one set of 44,000 tools. What is comparable is the
kind of queries: 18 of its data sets have their origin in the data. Of 13 there are queries with their tools, of four
the tools alone, and of ToolLens only the tools of ToolBench that it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.retrieval_data import Catalogues, Query, in_order

Category = Literal["web", "code", "custom"]


@dataclass(frozen=True)
class DataSet:
    """One data set of ToolRet.

    Attributes:
        category: of Tab. 1.
        source: of the queries here; empty where there are none.
        subset: the part of the source; empty for all of it.
        tools: the catalogue here that holds its tools, where there are tools and no queries.
    """

    category: Category
    source: str = ""
    subset: str = ""
    tools: str = ""


TOOLRET: Mapping[str, DataSet] = {
    "apibank": DataSet("web", "api_bank"),
    "apigen": DataSet("web"),
    "autotools-food": DataSet("web", "toolflow", "food"),
    "autotools-music": DataSet("web", "toolflow", "music"),
    "autotools-weather": DataSet("web", "toolflow", "weather"),
    "mnms": DataSet("web"),
    "restgpt-spotify": DataSet("web", "restbench_spotify"),
    "restgpt-tmdb": DataSet("web", "restbench_tmdb"),
    "reversechain": DataSet("web"),
    "rotbench": DataSet("web"),
    "t-eval-dialog": DataSet("web"),
    "t-eval-step": DataSet("web"),
    "taskbench-daily": DataSet("web", tools="taskbench_dailylifeapis"),
    "toolace": DataSet("web"),
    "toolbench": DataSet("web", "toolbench"),
    "toolemu": DataSet("web"),
    "tooleyes": DataSet("web", tools="tooleyes"),
    "toollens": DataSet("web", tools="toolbench"),
    "ultratool": DataSet("web", "ultratool"),
    "craft-math-algebra": DataSet("code"),
    "craft-tabmwp": DataSet("code"),
    "craft-vqa": DataSet("code"),
    "gorilla-huggingface": DataSet("code", "gorilla", "huggingface"),
    "gorilla-pytorch": DataSet("code", "gorilla", "torchhub"),
    "gorilla-tensor": DataSet("code", "gorilla", "tensorflowhub"),
    "toolink": DataSet("code"),
    "appbench": DataSet("custom"),
    "gpt4tools": DataSet("custom"),
    "gta": DataSet("custom"),
    "metatool": DataSet("custom", "metatool"),
    "taskbench-huggingface": DataSet("custom", tools="taskbench_huggingface"),
    "taskbench-multimedia": DataSet("custom", tools="taskbench_multimedia"),
    "tool-be-honest": DataSet("custom"),
    "toolalpaca": DataSet("custom", "toolalpaca"),
    "toolbench-sam": DataSet("custom"),
}
"""By ToolRet's own names."""
ULTRATOOL = "ultratool"


def data_set_of(query: Query) -> str | None:
    """The name of ToolRet's data set that a query's source is the origin of; ``None`` where it is of none."""
    for name, each in TOOLRET.items():
        if each.source == query.source and each.subset in ("", query.subset):
            return name
    return None


def toolret_queries(catalogues: Catalogues, per_set: int | None = None) -> list[Query]:
    """The queries of the data sets that are there; of each at most so many, always the same ones.

    UltraTool's are the tasks of its recorded solutions: the data has them as trajectories, and a task's wanted tools
    are those that its solution calls.

    Raises:
        EnvironmentProblem: the data is not there.
    """
    found: dict[str, list[Query]] = {name: [] for name, each in TOOLRET.items() if each.source}
    for query in [*catalogues.queries(), *_ultratool(catalogues)]:
        if name := data_set_of(query):
            found[name].append(query)
    return [query for name in sorted(found) for query in in_order(found[name])[:per_set]]


def _ultratool(catalogues: Catalogues) -> list[Query]:
    found: dict[str, Query] = {}
    for line in catalogues.lines("trajectories/trajectories.jsonl.gz"):
        record = json.loads(line)
        if record["source"] == "ultratool_gnn":
            gold = frozenset(call["tool"] for call in record["calls"])
            group = "multi" if len(gold) > 1 else "single"
            found.setdefault(record["task"], Query(record["id"], record["task"], gold, ULTRATOOL, ULTRATOOL, "", group))
    return list(found.values())
