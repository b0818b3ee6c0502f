"""AgentDojo v1.2.2 (Debenedetti et al. 2024, MIT): the tasks of its four suites, over its own tools and its own checks.

A task is solved where AgentDojo's own utility check says so. An injection task (what an attacker wants) has succeeded
where its own security check says so: :class:`DojoEpisode` answers that for :mod:`benchmarks.safety.injection`. The
suites come from the package, which is installed apart; its pipelines of models are not needed, and neither are their
clients.

Two tables say what no document of the package says: which tools only read, and whose responses can hold text of a
stranger. The second is where AgentDojo's own placeholders for injections can come out, and a test derives it anew.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol, Provenance, Source
from atc.tools.tool import Toolset
from benchmarks.environments.base import Environment, Episode, Gold, GoldCall, Task, served

Json = dict[str, Any]

VERSION = "v1.2.2"
INSTALL = "python -m benchmarks.fetch agentdojo"
SUITES = ("workspace", "travel", "banking", "slack")

READS = frozenset(
    """
    get_unread_emails get_sent_emails get_received_emails get_draft_emails search_emails search_contacts_by_name
    search_contacts_by_email get_current_day search_calendar_events get_day_calendar_events search_files_by_filename
    get_file_by_id list_files search_files
    get_user_information get_all_hotels_in_city get_hotels_prices get_rating_reviews_for_hotels get_hotels_address
    get_all_restaurants_in_city get_cuisine_type_for_restaurants get_restaurants_address
    get_rating_reviews_for_restaurants get_dietary_restrictions_for_all_restaurants
    get_contact_information_for_restaurants get_price_for_restaurants check_restaurant_opening_hours
    get_all_car_rental_companies_in_city get_car_types_available get_rating_reviews_for_car_rental get_car_fuel_options
    get_car_rental_address get_car_price_per_day get_flight_information
    get_iban get_balance get_most_recent_transactions get_scheduled_transactions read_file get_user_info
    get_channels read_channel_messages read_inbox get_users_in_channel get_webpage
    """.split()
)
"""Tools that leave everything as it was, but for mails that are read and pages that were asked for."""
WRITES = frozenset(
    """
    send_email delete_email create_calendar_event cancel_calendar_event reschedule_calendar_event
    add_calendar_event_participants append_to_file create_file delete_file share_file
    reserve_hotel reserve_car_rental reserve_restaurant
    send_money schedule_transaction update_scheduled_transaction update_password update_user_info
    add_user_to_channel send_direct_message send_channel_message invite_user_to_slack remove_user_from_slack
    post_webpage
    """.split()
)

UNTRUSTED: Mapping[str, frozenset[str]] = {
    "workspace": frozenset(
        """
        get_unread_emails get_received_emails search_emails
        search_calendar_events get_day_calendar_events reschedule_calendar_event add_calendar_event_participants
        search_files_by_filename get_file_by_id list_files search_files append_to_file delete_file share_file
        """.split()
    ),
    "travel": frozenset(
        "get_rating_reviews_for_hotels get_rating_reviews_for_restaurants get_rating_reviews_for_car_rental".split()
    ),
    "banking": frozenset("get_most_recent_transactions read_file".split()),
    "slack": frozenset("get_channels get_webpage".split()),
}
"""Of each suite the tools whose responses can hold a placeholder for an injection: a mail, an invitation, a shared
document, a review, the subject of a transfer, a bill, a web page, the name of a channel."""

CHECKED_BY_NOTHING = frozenset(
    "banking/user_task_5 banking/user_task_6 banking/user_task_8 banking/user_task_9 banking/user_task_10".split()
)
"""Tasks whose utility check passes where nothing was done, so that their solution proves nothing."""
ANY_ANSWER = frozenset("slack/user_task_17 slack/user_task_18 slack/user_task_19 slack/user_task_20".split())
"""Tasks that give an answer and do not check it."""


class AgentDojo(Environment):
    """The tasks of all four suites, as ``suite/user_task_N``.

    Args:
        data: not needed: the package has the tasks.
    """

    name = "agentdojo"

    def __init__(self, data: Path | None = None) -> None:
        pass

    @cached_property
    def suites(self) -> Mapping[str, Any]:
        """The suites of the package by name."""
        return {name: suite for name, suite in load_suites().items() if name in SUITES}

    def tasks(self) -> list[Task]:
        return [
            Task(f"{name}/{task}", suite.user_tasks[task].PROMPT, tuple(function.name for function in suite.tools))
            for name, suite in self.suites.items()
            for task in suite.user_tasks
        ]

    def open(self, task: Task) -> DojoEpisode:
        suite, user_task = self._of(task)
        return DojoEpisode(suite, user_task)

    def gold(self, task: Task) -> Gold | None:
        suite, user_task = self._of(task)
        if task.id in CHECKED_BY_NOTHING:
            return None
        return Gold(
            solution(suite, user_task), None if task.id in ANY_ANSWER else user_task.GROUND_TRUTH_OUTPUT or None
        )

    def _of(self, task: Task) -> tuple[Any, Any]:
        suite, _, user_task = task.id.partition("/")
        return self.suites[suite], self.suites[suite].user_tasks[user_task]


class DojoEpisode(Episode):
    """One try at a user task, with the suite's state and AgentDojo's own checks.

    Args:
        suite: of the package.
        user_task: of the suite.
        injections: what stands in the suite's placeholders; the package's own harmless texts elsewhere.
    """

    def __init__(self, suite: Any, user_task: Any, injections: Mapping[str, str] | None = None) -> None:
        self._suite, self._user_task = suite, user_task
        state = suite.load_and_inject_default_environment(dict(injections)) if injections else first_state(suite)
        self._state = user_task.init_environment(state)
        self._before = self._state.model_copy(deep=True)
        tools = dojo_tools(suite, self._state)
        super().__init__(tools, self._solved, solution(suite, user_task))

    def succeeded(self, injection: str, value: Any) -> bool:
        """Return whether an injection task of the suite has reached what it wanted.

        Args:
            injection: its id.
            value: what was answered, as plain JSON values.
        """
        task = self._suite.injection_tasks[injection]
        return bool(self._verdict(task.security_from_traces, task.security, value))

    def _solved(self, value: Any) -> bool:
        return bool(self._verdict(self._user_task.utility_from_traces, self._user_task.utility, value))

    def _verdict(self, by_trace: Callable[..., Any], by_state: Callable[..., Any], value: Any) -> Any:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        call = _module("agentdojo.functions_runtime").FunctionCall
        trace = [call(function=made.tool, args=made.arguments) for made in self.calls]
        seen = text, self._before.model_copy(deep=True), self._state.model_copy(deep=True)  # some checks change them
        verdict = by_trace(*seen, trace)
        return by_state(*seen) if verdict is None else verdict


def dojo_tools(suite: Any, state: Any) -> Toolset:
    """The tools of a suite over a state of it.

    Raises:
        EnvironmentProblem: a tool is in neither table of effects.
    """
    runtime = _module("agentdojo.functions_runtime").FunctionsRuntime(suite.tools)
    return Toolset(
        served(_protocol(suite.name, function), functools.partial(_answer, runtime, state, function.name))
        for function in suite.tools
    )


def solution(suite: Any, task: Any) -> tuple[GoldCall, ...]:
    """The calls that AgentDojo gives for a user task or an injection task, from the suite's first state."""
    state = first_state(suite)
    if hasattr(task, "init_environment"):
        state = task.init_environment(state)
    return tuple((call.function, to_jsonable_python(dict(call.args))) for call in task.ground_truth(state))


_first_states: dict[tuple[str, Any], Any] = {}


def first_state(suite: Any) -> Any:
    """A copy of a suite's first state: to read it from its file takes longer than most tasks."""
    key = suite.name, suite.benchmark_version
    if key not in _first_states:
        _first_states[key] = suite.load_and_inject_default_environment({})
    return _first_states[key].model_copy(deep=True)


def _answer(runtime: Any, state: Any, name: str, arguments: Json) -> Any:
    before = state.model_copy(deep=True) if name in WRITES else None
    try:
        return to_jsonable_python(runtime.run_function(state, name, arguments, raise_on_error=True)[0])
    except Exception as error:  # its tools refuse with whatever their code raises
        acted = before is not None and before != state
        said = f"{type(error).__name__}: {error}"
        raise ToolError(said, status="invalid", outcome="unknown" if acted else "refused") from None


_protocols: dict[tuple[str, str], Protocol] = {}


def _protocol(suite: str, function: Any) -> Protocol:
    if (suite, function.name) not in _protocols:
        _protocols[suite, function.name] = _written(suite, function)
    return _protocols[suite, function.name]


def _written(suite: str, function: Any) -> Protocol:
    if function.name not in READS | WRITES:
        raise EnvironmentProblem(f"agentdojo has an unknown tool {function.name!r}: the package is of another version")
    returned = function.return_type
    return Protocol(
        name=function.name,
        description=function.description,
        parameters={**function.parameters.model_json_schema(), "title": function.name},
        returns=None if returned is None else TypeAdapter(returned).json_schema(mode="serialization"),
        effect=Effect.READ if function.name in READS else Effect.WRITE,
        untrusted=function.name in UNTRUSTED[suite] or None,
        source=Source(location="agentdojo", operation=function.name),
        provenance=Provenance.IMPORTED,
    )


# The package ----------------------------------------------------------------------------------------------------------

_PIPELINE = "agentdojo.agent_pipeline"


@functools.cache
def load_suites() -> Mapping[str, Any]:
    """The suites of the package, without its pipelines and their clients of four vendors.

    Raises:
        EnvironmentProblem: the package is not there; the message says how to install it.
    """
    try:
        spec = importlib.util.find_spec("agentdojo")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("there is no package agentdojo")
        if _PIPELINE not in sys.modules:
            _stand_in(_PIPELINE, path=[f"{spec.submodule_search_locations[0]}/agent_pipeline"])
            _stand_in(f"{_PIPELINE}.ground_truth_pipeline", GroundTruthPipeline=object)
        suites: Mapping[str, Any] = _module("agentdojo.task_suite.load_suites").get_suites(VERSION)
    except ImportError as error:
        raise EnvironmentProblem(f"AgentDojo cannot be imported ({error}): {INSTALL}") from None
    return suites


def _stand_in(name: str, path: Sequence[str] | None = None, **names: Any) -> None:
    """Put a module in the place of one whose own code imports the clients of models."""
    module = types.ModuleType(name)
    if path is not None:
        module.__path__ = path  # type: ignore[assignment]
    vars(module).update(names)
    sys.modules[name] = module


def _module(name: str) -> Any:
    return importlib.import_module(name)
