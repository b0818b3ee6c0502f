"""What may be called unasked, by whom, and how often: the user's rules, their decisions, and the record of them.

The room knows nothing of faces: a caller is a principal, which was proved, and a name, which is only claimed. A claimed
name can restrict and never widens: rules that allow have no place for one.
"""

from atc.permissions.facts import Caller, Caps, Decision, Rule, Who
from atc.permissions.permissions import Permissions

__all__ = ["Caller", "Caps", "Decision", "Permissions", "Rule", "Who"]
