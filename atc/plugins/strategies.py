"""What a strategy of another package builds on, beside the names of :mod:`atc`.

Each name has its documentation where it is made. These pages are the seam between ATC and what extends it: the package
of the papers' mechanisms (``research/``) imports from here and from :mod:`atc` alone. docs/extending.md shows how a
strategy is written.
"""

from __future__ import annotations

from atc._records.events import LayerStarted as LayerStarted
from atc._records.packing import as_text as as_text
from atc._records.packing import holds_bytes as holds_bytes
from atc._records.records import ArgumentRepair as ArgumentRepair
from atc._records.records import FaultCase as FaultCase
from atc._records.records import FaultKind as FaultKind
from atc.calls.argument_repairs import ArgumentRepairs as ArgumentRepairs
from atc.calls.attempt import Attempt as Attempt
from atc.calls.entry import CallEntry as CallEntry
from atc.calls.json_values import to_json_value as to_json_value
from atc.catalogue.graph.edges import Feed as Feed
from atc.catalogue.graph.suppliers import is_handed_out as is_handed_out
from atc.catalogue.graph.tool_graph import ToolGraph as ToolGraph
from atc.errors import Cause as Cause
from atc.programs.extract import extract as extract
from atc.programs.program import Program as Program
from atc.programs.syntax import reads_one_of as reads_one_of
from atc.run.ask_user import NAME as _NAME
from atc.run.ask_user import is_ask_user as is_ask_user
from atc.run.chain_policy import ChainPolicy as ChainPolicy
from atc.run.endings import STATUS as STATUS
from atc.run.endings import advised as advised
from atc.run.endings import ending_of as ending_of
from atc.run.left_undone import refused_write as refused_write
from atc.run.left_undone import settled as settled
from atc.run.previews import LEFT_OUT as LEFT_OUT
from atc.run.previews import previews as previews
from atc.run.revise import revise as revise
from atc.run.writer import DEFAULT_OPTIONS as DEFAULT_OPTIONS
from atc.run.writer import Draft as Draft
from atc.sandboxes.inputs import name_problem as name_problem
from atc.schemas.identifiers import GENERIC as GENERIC
from atc.schemas.protocol import parameters_of as parameters_of
from atc.schemas.validate import problems as problems
from atc.tools.stubs import render_stub as render_stub
from atc.traces.stores.base import StoredRun as StoredRun
from atc.wording import argument_repairs as argument_repairs
from atc.wording import is_down as is_down
from atc.wording.prompting import fenced as fenced
from atc.wording.prompting import filled as filled

ASK_USER = _NAME
