"""Facts → sentences, for people and for the model. The one place that words findings and faults.

Records (:mod:`atc.facts`) carry data; what reads them decides by data. Sentences are made here, where they are read,
and no code reads one back: with one that says nothing but each record's kind, all decisions stay the same.
Other modules call ``wording.finding(…)`` through the package, so that it can be replaced as a whole.
"""

from __future__ import annotations

from atc.wording.faults import SAID_IMPOSSIBLE as SAID_IMPOSSIBLE
from atc.wording.faults import SAY_WHY as SAY_WHY
from atc.wording.faults import SENT_BACK as SENT_BACK
from atc.wording.faults import beside as beside
from atc.wording.faults import done as done
from atc.wording.faults import evidence as evidence
from atc.wording.faults import fault as fault
from atc.wording.faults import fault_alone as fault_alone
from atc.wording.faults import fault_feedback as fault_feedback
from atc.wording.faults import finished as finished
from atc.wording.faults import frames as frames
from atc.wording.faults import is_down as is_down
from atc.wording.faults import names_answer as names_answer
from atc.wording.faults import takes_place as takes_place
from atc.wording.faults import tools_not_shown as tools_not_shown
from atc.wording.findings import finding as finding
from atc.wording.findings import finding_alone as finding_alone
from atc.wording.outcomes import approved_by as approved_by
from atc.wording.outcomes import argument_repairs as argument_repairs
from atc.wording.outcomes import asked_elsewhere as asked_elsewhere
from atc.wording.outcomes import asks_to_wait as asks_to_wait
from atc.wording.outcomes import calls_left as calls_left
from atc.wording.outcomes import decided_before as decided_before
from atc.wording.outcomes import denied_by as denied_by
from atc.wording.outcomes import found_document as found_document
from atc.wording.outcomes import left_out as left_out
from atc.wording.outcomes import more_calls as more_calls
from atc.wording.outcomes import no_credential as no_credential
from atc.wording.outcomes import not_offered as not_offered
from atc.wording.outcomes import other_address as other_address
from atc.wording.outcomes import read_changed as read_changed
from atc.wording.outcomes import repeat as repeat
from atc.wording.outcomes import returned as returned
from atc.wording.outcomes import same_call as same_call
from atc.wording.outcomes import sent_again as sent_again
from atc.wording.outcomes import settled as settled
from atc.wording.outcomes import settled_as_not_done as settled_as_not_done
from atc.wording.outcomes import tool_changed as tool_changed
from atc.wording.parts import HIDDEN as HIDDEN
from atc.wording.parts import call as call
from atc.wording.parts import drifted as drifted
from atc.wording.parts import exception as exception
from atc.wording.parts import stated as stated
from atc.wording.parts import steps as steps
