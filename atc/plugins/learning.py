"""What a training or a scorer of another package builds on, beside the names of :mod:`atc`.

It looks at what a run searches with from within: the index and its vectors, the planner's conversation, the tool graph,
and the runs that are kept. Each name has its documentation where it is made.
"""

from __future__ import annotations

from atc._host.blocking import wait_for
from atc._host.files import lock, make_private, write_whole
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.store import GraphStore
from atc.catalogue.graph.suppliers import ECHO, fields_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.index import index_store
from atc.catalogue.index.clustering import k_means, nearest, squared_distances
from atc.catalogue.index.co_usage import CoUsage
from atc.catalogue.index.dialogue import (
    MAX_GOALS,
    MAX_QUERIES,
    MAX_TASK,
    MAX_WORDS,
    PRODUCT,
    STOP,
    TOP,
    Form,
    Plan,
    Turns,
    first_sentence,
    harmless,
    parse_plan,
    parse_query,
    show_results,
)
from atc.catalogue.index.documents import document_fields
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.planner import DEPTH, Conversation, QueryPlanner, Trajectory
from atc.catalogue.index.snapshot import Progress, Snapshot, protocol_of
from atc.catalogue.index.vectors import Encoder, Floats
from atc.catalogue.index.words import STOP_WORDS, words
from atc.catalogue.learn.examples import Example, read_examples
from atc.models.budget import Budget, BudgetedModel
from atc.models.messages import Ask
from atc.models.resolve import resolve_model
from atc.programs.lessons.reading import all_lessons
from atc.schemas.identifiers import (
    QUALIFIERS,
    VERBS,
    affinity,
    ending,
    endings,
    is_identifier,
    owner_of,
    singular,
    split,
    words_of,
)
from atc.schemas.protocol import JsonSchema, Parameter, parameters_of
from atc.schemas.validate import resolve, types_of
from atc.traces.reading import FAILS
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore, StoredRun
from atc.wording.prompting import fenced

__all__ = [
    "Ask",
    "Budget",
    "BudgetedModel",
    "CoUsage",
    "Conversation",
    "DEPTH",
    "ECHO",
    "Encoder",
    "Example",
    "FAILS",
    "Floats",
    "Form",
    "GraphStore",
    "JsonSchema",
    "MAX_GOALS",
    "MAX_QUERIES",
    "MAX_TASK",
    "MAX_WORDS",
    "MiniLM",
    "PRODUCT",
    "Parameter",
    "Path",
    "Plan",
    "Progress",
    "QUALIFIERS",
    "QueryPlanner",
    "RunStore",
    "STOP",
    "STOP_WORDS",
    "Snapshot",
    "StoredRun",
    "TOP",
    "ToolGraph",
    "ToolIndex",
    "Trajectory",
    "Turns",
    "VERBS",
    "affinity",
    "all_lessons",
    "document_fields",
    "ending",
    "endings",
    "fenced",
    "fields_of",
    "first_sentence",
    "harmless",
    "index_store",
    "is_identifier",
    "k_means",
    "lock",
    "make_private",
    "ndcg",
    "nearest",
    "open_store",
    "owner_of",
    "parameters_of",
    "parse_plan",
    "parse_query",
    "protocol_of",
    "read_examples",
    "resolve",
    "resolve_model",
    "show_results",
    "singular",
    "split",
    "squared_distances",
    "types_of",
    "wait_for",
    "words",
    "words_of",
    "write_whole",
]
