"""How a strategy has its programs written, checked and traced: the choices that the writer and the loop leave open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Ways:
    """The defaults are ATC's; the others are there to compare with, and make up the paper's own way.

    Attributes:
        tools: how the model is shown its tools: as Python functions whose response stands in the docstring, an example
            or its type (``plain``), or in classes with an example (``stubs``); or as JSON documents.
        example: show one worked example before the task, behind shorter instructions; ``None``: to a model that wants
            one (:attr:`atc.models.base.Model.wants_example`).
        revision: what a revision is written from: the last ``program`` whole, with its place, its tool's document and
            what the line worked with (ATC §3.3, Eq. 2); short ``notes`` alone, without a program; or ``edit``, a
            dialogue of programs and errors, as ``atc-paper`` has it. ``None``: notes for a model that wants an example,
            for it repeats what it is shown; the program for any other.
        attribution: how a fault is traced to a tool: by structure, by the model (§3.3), or not at all.
        check: check programs, and repair them by the tools' schemas, before they run.
        dialects: read programs that await their tools, or name them as other runtimes do.
        revision_temperature: sampling temperature of every program after the first.
        author: who writes the programs. If it is a ``caller`` of ATC, the user's words are not known here: its values
            are not held to them, its answer may rest on no call, and no model is asked about its faults.
    """

    tools: Literal["plain", "stubs", "json"] = "plain"
    example: bool | None = None
    revision: Literal["program", "notes", "edit"] | None = None
    attribution: Literal["structure", "model", "none"] = "structure"
    check: bool = True
    dialects: bool = True
    revision_temperature: float = 0.3
    author: Literal["model", "caller"] = "model"


DEFAULT_WAYS = Ways()
