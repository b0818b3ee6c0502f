"""What a strategy of another package builds on, beside the names of :mod:`atc`.

Each name has its documentation where it is made. These pages are the seam between ATC and what extends it: the package
of the papers' mechanisms (``research/``) imports from here and from :mod:`atc` alone. docs/extending.md shows how a
strategy is written.
"""

from __future__ import annotations

from atc._records.events import LayerStarted
from atc._records.packing import as_text, holds_bytes
from atc._records.records import ArgumentRepair, FaultCase, FaultKind
from atc.calls.argument_repairs import ArgumentRepairs
from atc.calls.attempt import Attempt
from atc.calls.entry import CallEntry
from atc.calls.json_values import to_json_value
from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import is_handed_out
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import Cause
from atc.programs.extract import extract
from atc.programs.program import Program
from atc.programs.syntax import reads_one_of
from atc.run.ask_user import NAME as ASK_USER
from atc.run.ask_user import is_ask_user
from atc.run.chain_policy import ChainPolicy
from atc.run.endings import STATUS, advised, ending_of
from atc.run.left_undone import refused_write, settled
from atc.run.previews import LEFT_OUT, previews
from atc.run.revise import revise
from atc.run.writer import DEFAULT_OPTIONS, Draft
from atc.sandboxes.inputs import name_problem
from atc.schemas.identifiers import GENERIC
from atc.schemas.protocol import parameters_of
from atc.schemas.validate import problems
from atc.tools.stubs import render_stub
from atc.traces.stores.base import StoredRun
from atc.wording import argument_repairs, is_down
from atc.wording.prompting import fenced, filled

__all__ = [
    "ASK_USER",
    "ArgumentRepair",
    "ArgumentRepairs",
    "Attempt",
    "Cause",
    "ChainPolicy",
    "DEFAULT_OPTIONS",
    "Draft",
    "CallEntry",
    "FaultCase",
    "FaultKind",
    "Feed",
    "GENERIC",
    "LEFT_OUT",
    "LayerStarted",
    "Program",
    "STATUS",
    "StoredRun",
    "ToolGraph",
    "advised",
    "argument_repairs",
    "as_text",
    "ending_of",
    "extract",
    "fenced",
    "filled",
    "holds_bytes",
    "is_ask_user",
    "is_down",
    "is_handed_out",
    "name_problem",
    "parameters_of",
    "previews",
    "problems",
    "reads_one_of",
    "refused_write",
    "render_stub",
    "revise",
    "settled",
    "to_json_value",
]
