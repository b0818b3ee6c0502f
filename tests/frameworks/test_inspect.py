"""A task of Inspect solved by ATC, with the real package and its scripted model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc import to_inspect
from atc.errors import UsageError

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed: `make frameworks` has it")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.approval import Approval, ApprovalPolicy, Approver, approver, auto_approver
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import match
from inspect_ai.solver import system_message, use_tools
from inspect_ai.tool import Tool, ToolCall, ToolCallView, ToolError, tool
from pydantic import BaseModel

from atc.serve.frameworks.inspect_sample import task_of
from atc.tools.adapters.inspect import data_of, plain_value

pytestmark = pytest.mark.slow
ORDERED: list[str] = []


class Stock(BaseModel):
    product: str
    pieces: int


@tool
def stock() -> Tool:
    async def execute(product: str) -> Stock:
        """Pieces that are left.

        Args:
            product: its identifier
        """
        if product == "none":
            raise ToolError("there is no such product")
        return Stock(product=product, pieces=3)  # type: ignore[return-value]

    return execute  # type: ignore[return-value]


@tool
def order() -> Tool:
    async def execute(product: str, pieces: int = 1) -> str:
        """Order a product.

        Args:
            product: its identifier
            pieces: how many
        """
        await asyncio.sleep(0.05)
        ORDERED.append(product)
        return f"ordered: {product}"

    return execute  # type: ignore[return-value]


@tool
def prices() -> Tool:
    async def execute() -> str:
        """The prices of all products."""
        return "- name: kite\n  cents: 400\n- name: rope\n  cents: 90\n"

    return execute  # type: ignore[return-value]


@tool
def broken() -> Tool:
    async def execute() -> str:
        """Does not work."""
        raise RuntimeError("a bug of the task")

    return execute  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def nothing_ordered() -> None:
    ORDERED.clear()


def program(text: str) -> str:
    return f"```python\n{text}\n```"


def output(text: str, tokens: int = 10) -> ModelOutput:
    made = ModelOutput.from_content("mockllm/model", text)
    # Without usage the scripted model counts by a tokenizer that is fetched from the network.
    made.usage = ModelUsage(input_tokens=tokens - 1, output_tokens=1, total_tokens=tokens)
    return made


def run(
    tmp_path: Path,
    *replies: str | Callable[[list[ChatMessage]], str],
    samples: int = 1,
    approval: list[ApprovalPolicy] | None = None,
    tools: tuple[Tool, ...] = (),
    target: str = "3",
    options: dict[str, Any] | None = None,
    **limits: Any,
) -> EvalLog:
    """Run one evaluation. ``replies``: those of all samples, in order; or one function of the prompt."""
    left = list(replies)

    def reply(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        text = left[0] if callable(left[0]) else left.pop(0)
        return output(text if isinstance(text, str) else text(messages))

    task = Task(
        [Sample(f"How many kites are left? ({number})", target=target) for number in range(samples)],
        setup=[system_message("Order what is left."), use_tools(list(tools or (stock(), order())))],
        solver=to_inspect(**(options or {})),
        scorer=match(),
    )
    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = evaluate(
        task, model=model, approval=approval, log_dir=str(tmp_path), display="none", fail_on_error=False, **limits
    )
    return log


def only(log: EvalLog) -> EvalSample:
    assert log.samples is not None
    (sample,) = log.samples
    return sample


def calls_of(sample: EvalSample) -> list[tuple[str, dict[str, Any]]]:
    said = [message.tool_calls or [] for message in sample.messages if message.role == "assistant"]
    return [(call.function, call.arguments) for calls in said for call in calls]


def summary(sample: EvalSample) -> dict[str, Any]:
    assert sample.output.metadata is not None
    said: dict[str, Any] = sample.output.metadata["atc"]
    return said


def logged(sample: EvalSample, kind: str) -> list[dict[str, Any]]:
    infos = [event.data for event in sample.events if event.event == "info" and event.source == "atc"]
    return [data for data in infos if isinstance(data, dict) and data["event"] == kind]


GOOD = program("left = stock(product='kite')['pieces']\norder(product='kite', pieces=left)\nanswer = left")


def test_a_task_is_solved_scored_and_logged(tmp_path: Path) -> None:
    prompts: list[str] = []

    def reply(messages: list[ChatMessage]) -> str:
        prompts.append("\n".join(message.text for message in messages))
        return GOOD

    sample = only(run(tmp_path, reply))
    assert sample.scores is not None
    assert sample.scores["match"].value == "C"
    assert sample.output.completion == "3"
    assert ORDERED == ["kite"]
    roles = [message.role for message in sample.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert calls_of(sample) == [("stock", {"product": "kite"}), ("order", {"product": "kite", "pieces": 3})]
    assert [message.text == GOOD for message in sample.messages[2:]] == [True, False, False, False, False]
    kinds = [event.event for event in sample.events if event.event in ("model", "tool")]
    assert kinds == ["model", "tool", "tool"]
    assert "Order what is left.\n\nHow many kites are left?" in prompts[0]
    assert "def stock(" in prompts[0]
    assert sample.model_usage["mockllm/model"].total_tokens == 10
    assert len(logged(sample, "program_written")) == len(logged(sample, "run_ended")) == 1
    assert summary(sample)["status"] == "answered"


def test_a_failing_program_is_revised_and_no_write_is_repeated(tmp_path: Path) -> None:
    first = program("order(product='kite')\nanswer = 1 / (stock(product='kite')['pieces'] - 3)")
    second = program("order(product='kite')\nanswer = stock(product='kite')['pieces']")
    sample = only(run(tmp_path, first, second, options={"effects": {"stock": "read", "not_here_*": "read"}}))
    assert sample.output.completion == "3"
    assert ORDERED == ["kite"]
    assert len(logged(sample, "fault")) == 1


def test_what_a_tool_refuses_is_an_error_of_the_program(tmp_path: Path) -> None:
    first, second = program("answer = stock(product='none')"), program("answer = stock(product='kite')['pieces']")
    sample = only(run(tmp_path, first, second, options={"effects": {"stock": "read"}}))
    assert sample.output.completion == "3"
    assert [message.error.type for message in sample.messages if message.role == "tool" and message.error] == [
        "unknown"
    ]


@approver(name="no_orders")
def no_orders(decision: str = "reject") -> Approver:
    async def decide(
        message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage] | None = None, **_: Any
    ) -> Approval:
        return Approval(decision=decision, explanation="no orders today")  # type: ignore[arg-type]

    return decide


OTHERS = ApprovalPolicy(auto_approver(), "*")


def test_what_inspect_does_not_approve_is_not_done_and_is_no_answer(tmp_path: Path) -> None:
    sample = only(run(tmp_path, GOOD, approval=[ApprovalPolicy(no_orders(), "order"), OTHERS]))
    assert ORDERED == []
    assert sample.output.completion == ""
    assert summary(sample)["status"] == "denied"
    assert "no orders today" in summary(sample)["fault"]
    assert sample.error is None


def test_an_approver_may_end_the_sample(tmp_path: Path) -> None:
    sample = only(run(tmp_path, GOOD, approval=[ApprovalPolicy(no_orders("terminate"), "order"), OTHERS]))
    assert ORDERED == []
    assert sample.limit is not None
    assert sample.limit.type == "operator"


def test_a_call_at_the_same_time_as_one_that_ends_the_sample_is_not_made(tmp_path: Path) -> None:
    asked: list[str] = []

    @approver(name="first_ends_it")
    def first_ends_it() -> Approver:
        async def decide(
            message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage] | None = None, **_: Any
        ) -> Approval:
            asked.append(call.function)
            return Approval(decision="terminate" if len(asked) == 1 else "approve")

        return decide

    both = program('answer = parallel(lambda: order(product="kite"), lambda: order(product="rope"))')
    sample = only(run(tmp_path, both, approval=[ApprovalPolicy(first_ends_it(), "order"), OTHERS]))
    assert (len(asked), ORDERED) == (1, [])
    assert sample.limit is not None


@pytest.mark.parametrize(
    ("limit", "ended", "calls"), [({"message_limit": 4}, "message", 1), ({"token_limit": 5}, "token", 0)]
)
def test_a_limit_of_inspect_ends_the_sample(tmp_path: Path, limit: dict[str, int], ended: str, calls: int) -> None:
    sample = only(run(tmp_path, GOOD, **limit))
    assert sample.limit is not None
    assert sample.limit.type == ended
    assert len(calls_of(sample)) == calls
    assert sample.error is None
    assert ORDERED == []
    assert sample.scores is not None  # what was done is scored


def test_a_limit_of_time_stops_the_program(tmp_path: Path) -> None:
    began = time.monotonic()
    sample = only(
        run(
            tmp_path,
            program("n = stock(product='kite')['pieces']\nanswer = sum(range(n * 10**12))"),
            time_limit=8,
            options={"cpu_s": 600},
        )
    )
    assert sample.limit is not None
    assert sample.limit.type == "time"
    assert time.monotonic() - began < 100


def test_a_bug_of_a_tool_is_an_error_of_the_sample(tmp_path: Path) -> None:
    sample = only(run(tmp_path, program("try:\n    broken()\nexcept Exception:\n    answer = 3"), tools=(broken(),)))
    assert sample.error is not None
    assert "a bug of the task" in sample.error.message


def test_a_failure_of_the_model_is_an_error_of_the_sample(tmp_path: Path) -> None:
    def fails(_: list[ChatMessage]) -> str:
        raise ConnectionError("the provider is down")

    sample = only(run(tmp_path, fails))
    assert sample.error is not None
    assert "the provider is down" in sample.error.message


def test_two_samples_at_once_share_nothing(tmp_path: Path) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        number = messages[-1].text.partition("left? (")[2][0]
        return program(f"order(product='p{number}')\nanswer = stock(product='p{number}')['pieces'] + {number}")

    log = run(tmp_path, reply, samples=3, max_samples=3)
    assert log.samples is not None
    assert [sample.output.completion for sample in log.samples] == ["3", "4", "5"]
    for number, sample in enumerate(log.samples):
        assert [call for call, _ in calls_of(sample)] == ["order", "stock"]
        assert {arguments["product"] for _, arguments in calls_of(sample)} == {f"p{number}"}
    assert sorted(ORDERED) == ["p0", "p1", "p2"]


def test_text_of_tools_may_be_read_as_data(tmp_path: Path) -> None:
    summed = program("answer = sum(price['cents'] for price in prices())")
    sample = only(run(tmp_path, summed, tools=(prices(),), target="490", options={"parse_text": True}))
    assert sample.output.completion == "490"


def test_a_sentence_is_the_answer_where_it_is_wanted(tmp_path: Path) -> None:
    said = program("answer = stock(product='kite')['pieces']\nsay = f'There are {answer} kites.'")
    sample = only(run(tmp_path, said, options={"sentence": True}))
    assert sample.output.completion == "There are 3 kites."


def test_always_leaves_out_what_text_of_strangers_chose(tmp_path: Path) -> None:
    chosen = program("answer = order(product=prices())")
    options = {"untrusted": "prices", "effects": {"prices": "read"}, "approve": "always"}
    sample = only(run(tmp_path, chosen, tools=(prices(), order()), options=options))
    assert (ORDERED, sample.output.completion) == ([], "")
    assert summary(sample)["status"] == "denied"


def test_what_is_inspects_cannot_be_set() -> None:
    with pytest.raises(UsageError, match="model is Inspect's here"):
        to_inspect(model="embedded")
    with pytest.raises(UsageError, match="'inspect' or 'always'"):
        to_inspect(approve="ask")  # type: ignore[arg-type]


def test_the_command_finds_the_solver_by_its_name() -> None:
    found = (
        "from inspect_ai._util.registry import registry_lookup as r; print(r('solver', 'atc/code_mode') is not None)"
    )
    assert subprocess.check_output([sys.executable, "-c", found], text=True).strip() != "None"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("- a: 1\n- a: 2", [{"a": 1}, {"a": 2}]),
        ("a: 1\nb: x", {"a": 1, "b": "x"}),
        ("Sent: yes", "Sent: yes"),  # a sentence with a colon
        ("plain text", "plain text"),
        ("[not json", "[not json"),
        ("- &a [1]\n- *a", "- &a [1]\n- *a"),  # an alias
        ("- !!timestamp x", "- !!timestamp x"),  # a tag that does not fit
        ("12", "12"),
    ],
)
def test_text_that_is_data_becomes_data(text: str, value: Any) -> None:
    assert data_of(text) == value


def test_content_for_a_model_becomes_text() -> None:
    parts: list[Content] = [ContentText(text="a"), ContentText(text="b")]
    assert plain_value(parts) == "a\nb"
    assert plain_value([]) == []
    assert plain_value([1]) == [1]


def test_a_conversation_is_told_with_who_said_what() -> None:

    said = [
        ChatMessageSystem(content="Policy."),
        ChatMessageUser(content="Hello"),
        ChatMessageAssistant(content="Yes?"),
    ]
    assert task_of(said[:2]) == "Policy.\n\nHello"
    assert task_of(said) == "Policy.\n\nuser: Hello\n\nassistant: Yes?"
