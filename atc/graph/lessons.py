"""What one finished run teaches, as plain facts: names, counts and types (:mod:`atc.programs.lessons` reads them off).

Success counts only where a call's value reached the answer (NaviAgent Eq. 4 counts successes alone); a run without an
answer teaches failures, and what its tools answered. No value is kept, and no key that may be one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atc.graph.edges import Path
from atc.schemas.infer.outline import Outline


@dataclass(frozen=True)
class Lessons:
    """What one request of a run teaches. Tools are named as the run named them.

    Attributes:
        id: a digest of the run's name and the request's number: the same run is learnt once. Empty: of no run.
        answered: the run has an answer.
        calls: successes of each tool whose value reached the answer.
        failed: failed calls, by number in the run, with their tools; not those refused for their arguments.
        follows: of a tool and the next other one whose call counts.
        feeds: of a field and a parameter: calls of the consumer that took the value from there.
        replaced: of a tool and the one that took its place: whether the value of that one reached the answer.
        shapes: what tools that document no response answered, in every call that succeeded: what was answered holds
            whatever became of the program.
        observed: the first and the last number of the calls that shapes rest on.
        levels: calls of a tool in a layer of the program's data flow: a call that takes a value of another stands one
            layer behind it.
        respelt: of a tool and a key that no parameter has, the parameter that was meant.
    """

    id: str
    answered: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[tuple[int, str], ...] = ()
    follows: Mapping[tuple[str, str], int] = field(default_factory=dict)
    feeds: Mapping[tuple[str, Path, str, str], int] = field(default_factory=dict)
    replaced: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    shapes: Mapping[str, Outline] = field(default_factory=dict)
    observed: tuple[int, int] = (0, 0)
    levels: Mapping[tuple[str, int], int] = field(default_factory=dict)
    respelt: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.calls or self.failed or self.replaced or self.shapes)
