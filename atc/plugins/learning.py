"""What a training, or a search, of another package builds on, beside the names of :mod:`atc`.

It looks at what a run searches with from within: the index and its vectors, the tool graph,
and the runs that are kept. Each name has its documentation where it is made.
"""

from __future__ import annotations

from atc._host.blocking import wait_for as wait_for
from atc._host.files import lock as lock
from atc._host.files import make_private as make_private
from atc._host.files import write_whole as write_whole
from atc._records.records import Why as Why
from atc.catalogue.graph.edges import Feed as Feed
from atc.catalogue.graph.edges import Learnt as Learnt
from atc.catalogue.graph.edges import Path as Path
from atc.catalogue.graph.store import GraphStore as GraphStore
from atc.catalogue.graph.suppliers import ECHO as ECHO
from atc.catalogue.graph.suppliers import Scope as Scope
from atc.catalogue.graph.suppliers import Supplier as Supplier
from atc.catalogue.graph.suppliers import fields_of as fields_of
from atc.catalogue.graph.suppliers import is_handed_out as is_handed_out
from atc.catalogue.graph.tool_graph import ToolGraph as ToolGraph
from atc.catalogue.index import index_store as index_store
from atc.catalogue.index.documents import document_fields as document_fields
from atc.catalogue.index.documents import service_of as service_of
from atc.catalogue.index.index import ToolIndex as ToolIndex
from atc.catalogue.index.metrics import ndcg as ndcg
from atc.catalogue.index.minilm import MiniLM as MiniLM
from atc.catalogue.index.retriever import IndexRetriever as IndexRetriever
from atc.catalogue.index.search import Hit as Hit
from atc.catalogue.index.search import Mode as Mode
from atc.catalogue.index.search import top as top
from atc.catalogue.index.sieve import PARTS_DEPTH as PARTS_DEPTH
from atc.catalogue.index.sieve import one_ranking as one_ranking
from atc.catalogue.index.sieve import parts_of as parts_of
from atc.catalogue.index.snapshot import Progress as Progress
from atc.catalogue.index.snapshot import Snapshot as Snapshot
from atc.catalogue.index.snapshot import protocol_of as protocol_of
from atc.catalogue.index.vectors import Encoder as Encoder
from atc.catalogue.index.vectors import Floats as Floats
from atc.catalogue.index.vectors import Rows as Rows
from atc.catalogue.index.words import STOP_WORDS as STOP_WORDS
from atc.catalogue.index.words import words as words
from atc.models.budget import Budget as Budget
from atc.models.budget import BudgetedModel as BudgetedModel
from atc.models.messages import Ask as Ask
from atc.models.messages import Role as Role
from atc.models.resolve import resolve_model as resolve_model
from atc.programs.lessons.reading import all_lessons as all_lessons
from atc.schemas.identifiers import GENERIC as GENERIC
from atc.schemas.identifiers import NAMES as NAMES
from atc.schemas.identifiers import QUALIFIERS as QUALIFIERS
from atc.schemas.identifiers import VERBS as VERBS
from atc.schemas.identifiers import affinity as affinity
from atc.schemas.identifiers import ending as ending
from atc.schemas.identifiers import endings as endings
from atc.schemas.identifiers import is_identifier as is_identifier
from atc.schemas.identifiers import names_a_supplier as names_a_supplier
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
