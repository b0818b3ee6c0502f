"""A planner of two layers learns what it says, alone; better searches of a group become likelier. It needs torch."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from learn_support import TRIP, catalogue

from atc.errors import UsageError
from atc_research.examples import Example
from atc_research.toolqp.dataset import Output
from atc_research.toolqp.dialogue import Turns
from atc_research.toolqp.document_teacher import DocumentSynthesiser
from atc_research.toolqp.hints import names_tool
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.trajectories import RANK_THRESHOLD, Skipped, Trajectory
from tests.support.decoder import read, writer
from tests.support.tiny_model import base

pytestmark = pytest.mark.filterwarnings("ignore::atc.errors.LexicalOnly")
SHORT = Turns(eager=False, example=False, providers=False, patient=True)
SAID = [("user", "a task"), ("assistant", "<plan>\n1. find\n</plan>"), ("user", "found"), ("assistant", "<stop>")]


def taught(example: Example = TRIP, **given: Any) -> Trajectory | Skipped:
    return asyncio.run(DocumentSynthesiser(catalogue(), **given).make(example))


def planner(rank: int = 4, longest: int = 256) -> Any:
    model = base()
    from atc_research.toolqp.planner import Planner
    from atc_research.toolweaver.code_decoder import Opened

    opened = Opened(model, read, writer().frame, lambda ids: bytes(i for i in ids if i < 256).decode(errors="replace"))
    return Planner(opened, rank, longest)


# -- the teacher ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [SHORT, PAPER])
def test_documents_teach_verified_queries_that_name_no_tool(turns: Turns) -> None:
    found = taught(turns=turns, keep_failed=1.0)
    assert isinstance(found, Trajectory), found
    assert [tools for _, tools in found.goals] == [(tool,) for tool in TRIP.gold]
    index = catalogue()
    for number in range(len(found.goals)):
        last = [attempt for attempt in found.attempts if attempt.goal == number][-1]
        assert last.rank <= RANK_THRESHOLD
    for attempt in found.attempts:
        assert not any(names_tool(attempt.query, index.protocol(tool), TRIP.query) for tool in TRIP.gold)
    assert taught(turns=turns, keep_failed=1.0) == found, "the same seed and index give the same"


def test_a_task_whose_documents_say_nothing_is_skipped() -> None:
    from atc.catalogue.index.index import ToolIndex
    from atc.schemas.protocol import Protocol

    index = ToolIndex.build([("a/x", Protocol(name="x", description="", parameters={}))])
    found = asyncio.run(DocumentSynthesiser(index).make(Example("1", "do it", ("a/x",))))
    assert isinstance(found, Skipped)


# -- supervised -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_loss_counts_what_the_planner_says_after_its_question_alone() -> None:
    made = planner()
    whole, later = made.example(SAID), made.example(SAID, given=3)
    assert (
        bytes(i for i, counts in zip(whole.ids, whole.learnt, strict=True) if counts and i < 256)
        == (SAID[1][1] + SAID[3][1]).encode()
    )
    assert bytes(i for i, counts in zip(later.ids, later.learnt, strict=True) if counts and i < 256) == b"<stop>"
    assert made.prompt(SAID[:1]) == list(whole.ids[: len(made.prompt(SAID[:1]))]), "it is asked as it was taught"


@pytest.mark.slow
def test_the_format_teaches_the_document_of_each_tool_of_a_task() -> None:
    made = planner(longest=2_000)
    from atc_research.toolqp.planner import Line, format_examples

    line = Line((), 0, {"query": TRIP.query, "gold": list(TRIP.gold)})
    found = list(format_examples(made, [line], catalogue()))
    for tool, each in zip(TRIP.gold, found, strict=True):
        said = bytes(i for i, counts in zip(each.ids, each.learnt, strict=True) if counts and i < 256)
        assert json.loads(said)["name"] == catalogue().protocol(tool).name
        assert TRIP.query.encode() in bytes(i for i in each.ids if i < 256), "the task stands before it"


@pytest.mark.slow
def test_supervised_training_lowers_the_loss_and_goes_on_as_if_nothing_had_been_between(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base()
    from atc_research.toolweaver.decoder_training import Options, train

    options = Options(rank=0, rate=1e-2, epochs=12, batch=1, at_once=1, decay=0.01, warm_up_steps=3)
    whole, cut = planner(0), planner(0)
    examples = [whole.example(SAID), whole.example(SAID[:2])]
    progress = train(whole, examples, options, tmp_path / "whole")
    assert progress.losses[-1] < 0.8 * progress.losses[0]

    def stop(now: Any) -> None:
        if now.step == 17:
            raise KeyboardInterrupt

    from atc_research.toolweaver import decoder_training

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder_training, "_KEPT_S", 0.0)
        with pytest.raises(KeyboardInterrupt):
            train(cut, examples, options, tmp_path / "cut", report=stop)
    again = planner(0)
    assert train(again, examples, options, tmp_path / "cut").losses == progress.losses
    for name, value in whole.trained().items():
        assert torch.equal(value, again.trained()[name])


# -- by reward --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_better_search_of_a_group_becomes_likelier() -> None:
    torch = pytest.importorskip("torch")
    base()
    from atc_research.toolqp.planner_grpo import Grpo, Rollout, advantages, update
    from atc_research.toolqp.rewards import Reward

    assert advantages([1, 3, 5, 5], 2) == [-1, 1, 0, 0]
    made = planner()
    options = Grpo(steps=1, warm_up=0, rate=1e-2, batch=2, group=2)
    texts = ["<plan>\n1. good\n</plan>", "<plan>\n1. poor\n</plan>"]
    examples = [made.example([("user", "task"), ("assistant", text)]) for text in texts]

    def likely() -> list[float]:
        with torch.no_grad():
            return [-float(made.loss([each])[0]) for each in examples]

    before = likely()
    rollouts = [Rollout(examples[0], Reward(5, 2, 1)), Rollout(examples[1], Reward(0, 1, 0))]
    start = {name: value.clone() for name, value in made.trained().items()}
    optimiser = torch.optim.AdamW([value for value in made.parameters() if value.requires_grad], lr=options.rate)
    update(made, start, rollouts, options, optimiser)
    after = likely()
    assert after[0] - after[1] > before[0] - before[1]


@pytest.mark.slow
def test_a_step_searches_with_the_real_planner_and_is_gone_on_with(tmp_path: Path) -> None:
    base()
    from atc_research.toolqp.planner import read_lines
    from atc_research.toolqp.planner_grpo import Grpo, train

    file = tmp_path / "made.jsonl"
    found = taught(turns=SHORT)
    with Output(file) as output:
        output.write(found)
    lines = read_lines(file)
    options = Grpo(steps=2, warm_up=1, rate=1e-3, batch=2, group=2)

    def embed(texts: Any) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    small = planner(longest=64)
    done = train(small, lines, catalogue(), embed, options, tmp_path / "kept")
    assert done.done
    assert len(done.losses) == 2
    again = train(planner(longest=64), lines, catalogue(), embed, options, tmp_path / "kept")
    assert again.losses == done.losses, "nothing is left to do"


@pytest.mark.slow
def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    base()
    from atc_research.toolqp.planner import read_lines

    file = tmp_path / "made.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user"}]}) + "\n")
    with pytest.raises(UsageError, match="line 1 is no trajectory"):
        read_lines(file)
