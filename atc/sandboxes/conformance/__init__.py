"""The conformance suite holds any sandbox driver to what every one promises (``atc sandbox check``)."""

from __future__ import annotations

from atc.sandboxes.conformance.kit import Check, Factory, Lab, NotApplicable
from atc.sandboxes.conformance.suite import CHECKS, Report, Verdict, check_sandbox, factory_for

__all__ = ["CHECKS", "Check", "Factory", "Lab", "NotApplicable", "Report", "Verdict", "check_sandbox", "factory_for"]
