"""What became of a task of a batch: its result, and the row that a file of results has of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from atc.faces.batch.limits import Spent, Which
from atc.faces.batch.tasks import BatchTask
from atc.facts import Fault, Invocation
from atc.packing import pack, unpack
from atc.result import Result, Usage


class TaskResult(Result[Any]):
    """The result of a task of a batch.

    Attributes:
        id: the task's.
        over: the budget over all tasks that ended the run, or that was used up before it began; else ``None``.
        begun: whether there was a run.
        in_use: whether another process works on the run, so that the task has not ended and gets no row.
    """

    id: str = ""
    over: Which | None = None
    begun: bool = True
    in_use: bool = False


def task_result(result: Result[Any], task: BatchTask, over: Which | None = None) -> TaskResult:
    """The result of a run as that of its task."""
    fields = {name: getattr(result, name) for name in Result.model_fields if name != "value"}
    made = TaskResult.typed(result.value, result.json_value, **fields, id=task.id, over=over)
    assert isinstance(made, TaskResult)
    return made


def failed(task: BatchTask, run_id: str, reason: str, *, in_use: bool = False) -> TaskResult:
    """The result of a task that could not be run, or not be gone on with."""
    fault = Fault(kind="environment", reason=reason)
    return TaskResult(run_id=run_id, task=task.task, status="failed", fault=fault, id=task.id, in_use=in_use)


def not_begun(task: BatchTask, over: Which) -> TaskResult:
    """The result of a task for which nothing was left."""
    reason = f"the tasks before it have used up the batch's budget of {over}"
    fault = Fault(kind="limit", reason=reason)
    return TaskResult(run_id="", task=task.task, status="budget", fault=fault, id=task.id, over=over, begun=False)


def row_of(result: TaskResult, task: BatchTask) -> dict[str, Any]:
    """The line that a file of results has of a task, as plain JSON."""
    usage = result.usage
    row: dict[str, Any] = {
        "id": result.id,
        "status": result.status,
        "value": pack(result.json_value),
        "answer": result.answer,
        "task": result.task,
        "run_id": result.run_id,
        "digest": task.digest,
        "model_calls": usage.model_calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 3),
    }
    if result.cost is not None:
        row |= {"cost": str(result.cost), "currency": result.currency}
    if result.fault is not None and result.status != "answered":
        row["error"] = result.fault.message
        if result.fault.hint:
            row["hint"] = result.fault.hint
        for name, calls in (("done", result.done), ("not_done", result.not_done)):
            if calls:
                row[name] = [call.model_dump(mode="json") for call in calls]
    if result.partial:
        row["partial"] = True
    if result.remarks:
        row["remarks"] = [each.message for each in result.remarks]
    if result.question is not None:
        row["question"] = result.question
    if result.in_doubt:
        row["in_doubt"] = [{"tool": call.tool, "arguments": pack(call.arguments)} for call in result.in_doubt]
    if result.over is not None:
        row["over"] = result.over
    return row


def spent_in(row: Mapping[str, Any]) -> Spent:
    """What a row says that its run spent.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: it is damaged.
    """
    calls, *tokens = (int(row[name]) for name in ("model_calls", "prompt_tokens", "completion_tokens"))
    cost = Decimal(str(row.get("cost", 0)))
    if min(calls, *tokens) < 0 or not (cost.is_finite() and cost >= 0):
        raise ValueError("nobody spends less than nothing")
    return Spent(calls, sum(tokens), cost)


def result_of(row: Mapping[str, Any], task: BatchTask) -> TaskResult:
    """The result that an earlier process wrote into a file: without its programs and calls, its value as JSON.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: the row is damaged.
    """
    given = {name: row[name] for name in ("run_id", "task", "status", "answer", "id")} | {"value": unpack(row["value"])}
    usage = Usage(**{name: row[name] for name in ("model_calls", "prompt_tokens", "completion_tokens", "seconds")})
    more: dict[str, Any] = {name: row[name] for name in ("question", "currency", "over") if name in row}
    if "cost" in row:
        more["cost"] = Decimal(row["cost"])
    for name in ("done", "not_done"):
        more[name] = tuple(Invocation.model_validate_json(json.dumps(each)) for each in row.get(name, ()))
    if "error" in row:
        more["fault"] = Fault(kind="environment", reason=row["error"], hint=row.get("hint", ""))
    remarks = tuple(Fault(kind="tool", reason=text) for text in row.get("remarks", ()))
    return TaskResult(**given, **more, usage=usage, partial=row.get("partial", False), remarks=remarks)
