"""Probing: undocumented tools document themselves (ATC §4). :func:`probe` does it; :class:`Prober` has the settings."""

from atc.probing.call_policy import Budget
from atc.probing.drift import Drift
from atc.probing.prober import Prober, Progress, probe
from atc.probing.report import Line, Report

__all__ = ["Budget", "Drift", "Line", "Prober", "Progress", "Report", "probe"]
