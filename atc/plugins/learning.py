"""What a training or a scorer of another package builds on, beside the names of :mod:`atc`.

It looks at what a run searches with from within: the index and its vectors, the planner's conversation, the tool graph,
and the runs that are kept. Each name has its documentation where it is made.
"""

from __future__ import annotations

from atc._host.blocking import wait_for as wait_for
from atc._host.files import lock as lock
from atc._host.files import make_private as make_private
from atc._host.files import write_whole as write_whole
from atc.catalogue.graph.edges import Path as Path
from atc.catalogue.graph.store import GraphStore as GraphStore
from atc.catalogue.graph.suppliers import ECHO as ECHO
from atc.catalogue.graph.suppliers import fields_of as fields_of
from atc.catalogue.graph.tool_graph import ToolGraph as ToolGraph
from atc.catalogue.index import index_store as index_store
from atc.catalogue.index.clustering import k_means as k_means
from atc.catalogue.index.clustering import nearest as nearest
from atc.catalogue.index.clustering import squared_distances as squared_distances
from atc.catalogue.index.co_usage import CoUsage as CoUsage
from atc.catalogue.index.dialogue import MAX_GOALS as MAX_GOALS
from atc.catalogue.index.dialogue import MAX_QUERIES as MAX_QUERIES
from atc.catalogue.index.dialogue import MAX_TASK as MAX_TASK
from atc.catalogue.index.dialogue import MAX_WORDS as MAX_WORDS
from atc.catalogue.index.dialogue import PRODUCT as PRODUCT
from atc.catalogue.index.dialogue import STOP as STOP
from atc.catalogue.index.dialogue import TOP as TOP
from atc.catalogue.index.dialogue import Form as Form
from atc.catalogue.index.dialogue import Plan as Plan
from atc.catalogue.index.dialogue import Turns as Turns
from atc.catalogue.index.dialogue import first_sentence as first_sentence
from atc.catalogue.index.dialogue import harmless as harmless
from atc.catalogue.index.dialogue import parse_plan as parse_plan
from atc.catalogue.index.dialogue import parse_query as parse_query
from atc.catalogue.index.dialogue import show_results as show_results
from atc.catalogue.index.documents import document_fields as document_fields
from atc.catalogue.index.index import ToolIndex as ToolIndex
from atc.catalogue.index.metrics import ndcg as ndcg
from atc.catalogue.index.minilm import MiniLM as MiniLM
from atc.catalogue.index.planner import DEPTH as DEPTH
from atc.catalogue.index.planner import Conversation as Conversation
from atc.catalogue.index.planner import QueryPlanner as QueryPlanner
from atc.catalogue.index.planner import Trajectory as Trajectory
from atc.catalogue.index.snapshot import Progress as Progress
from atc.catalogue.index.snapshot import Snapshot as Snapshot
from atc.catalogue.index.snapshot import protocol_of as protocol_of
from atc.catalogue.index.vectors import Encoder as Encoder
from atc.catalogue.index.vectors import Floats as Floats
from atc.catalogue.index.words import STOP_WORDS as STOP_WORDS
from atc.catalogue.index.words import words as words
from atc.catalogue.learn.examples import Example as Example
from atc.catalogue.learn.examples import read_examples as read_examples
from atc.models.budget import Budget as Budget
from atc.models.budget import BudgetedModel as BudgetedModel
from atc.models.messages import Ask as Ask
from atc.models.resolve import resolve_model as resolve_model
from atc.programs.lessons.reading import all_lessons as all_lessons
from atc.schemas.identifiers import QUALIFIERS as QUALIFIERS
from atc.schemas.identifiers import VERBS as VERBS
from atc.schemas.identifiers import affinity as affinity
from atc.schemas.identifiers import ending as ending
from atc.schemas.identifiers import endings as endings
from atc.schemas.identifiers import is_identifier as is_identifier
from atc.schemas.identifiers import owner_of as owner_of
from atc.schemas.identifiers import singular as singular
from atc.schemas.identifiers import split as split
from atc.schemas.identifiers import words_of as words_of
from atc.schemas.protocol import JsonSchema as JsonSchema
from atc.schemas.protocol import Parameter as Parameter
from atc.schemas.protocol import parameters_of as parameters_of
from atc.schemas.validate import resolve as resolve
from atc.schemas.validate import types_of as types_of
from atc.traces.reading import FAILS as FAILS
from atc.traces.stores import open_store as open_store
from atc.traces.stores.base import RunStore as RunStore
from atc.traces.stores.base import StoredRun as StoredRun
from atc.wording.prompting import fenced as fenced
