"""The words that settings, options and arguments share. Settings know them without what acts on them, such as NumPy."""

from __future__ import annotations

from typing import Literal

ApproveChoice = Literal["ask", "never", "always", "park"]
"""Who decides over calls that are not reads (:mod:`atc.calls.approval`)."""
WarningsChoice = Literal["ask", "allow"]
"""Whether a call that depends on what the check warned about is asked about."""
AskUserChoice = Literal["never", "ask", "stop"]
"""Who answers the questions that programs ask the user (:mod:`atc.calls.question`)."""

SessionWord = Literal["keep", "memory", "none"]
"""What is done with the login of a recording. ``keep``: it is used, and later commands use it without a question.
``memory``: it is used now. ``none``: it is not used, and a yes that was kept is forgotten."""
