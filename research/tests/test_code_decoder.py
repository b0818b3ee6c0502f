"""A decoder of two layers learns to say tools by codes: both stages, in pieces, under the mask. It needs torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atc.errors import EnvironmentProblem, UsageError
from atc_research.extras import TRAIN
from atc_research.toolweaver.code_tokens import CodeMask, CodeTokens, Turn
from atc_research.toolweaver.code_trie import Trie
from tests.support.decoder import CODES, read, writer
from tests.support.tiny_model import base

TOKENS = CodeTokens(2, 4, 258)
QUERIES = {"weather/now": "is it cold", "weather/week": "rain this week", "mail/send": "write to Ann"}


def mask() -> CodeMask:
    return CodeMask(TOKENS, Trie(np.array(list(CODES.values()), np.int16)))


def first(decoder: Any, query: str, width: int = 3) -> Sequence[tuple[int, ...]]:
    from atc_research.toolweaver.code_beam import say

    return [each.codes for each in say(decoder, mask(), writer().prompt(query), width)]


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "tied"), [(4, True), (0, True), (4, False)])
def test_stage_one_teaches_which_tool_a_query_is_for(rank: int, tied: bool) -> None:
    model = base(tied=tied)
    from atc_research.toolweaver.code_decoder import CodeDecoder
    from atc_research.toolweaver.decoder_training import Options, train

    before = {name: value.clone() for name, value in model.named_parameters()}
    decoder = CodeDecoder(model, TOKENS, rank)
    pairs = [writer().pair(query, CODES[tool]) for tool, query in QUERIES.items()]
    progress = train(decoder, pairs, Options(rank=rank, rate=2e-2 if rank else 1e-2, epochs=60, batch=3))
    assert progress.done
    assert progress.losses[-1] < 0.2 < progress.losses[0]
    for tool, query in QUERIES.items():
        assert first(decoder, query)[0] == CODES[tool]
    frozen = {name: value for name, value in before.items() if rank and not name.endswith("proj.weight")}
    for name, value in frozen.items():
        assert (dict(decoder.base.named_parameters())[name] == value).all(), "the model's own words stay as they are"
    assert len(decoder.trained()) == (14 * 2 + (1 if tied else 2) if rank else len(before) + (1 if tied else 2))


@pytest.mark.slow
def test_a_training_in_pieces_is_the_same_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base()
    from atc_research.toolweaver import decoder_training
    from atc_research.toolweaver.code_decoder import CodeDecoder
    from atc_research.toolweaver.decoder_training import CHECKPOINT, Options, Progress, load, train

    options = Options(rank=2, epochs=3, batch=2, at_once=1)
    pairs = [writer().pair(f"{query} {n}", CODES[tool]) for n in range(2) for tool, query in QUERIES.items()]
    whole = train(CodeDecoder(base(), TOKENS, 2), pairs, options)
    assert whole.steps == 9

    class Stopped(Exception):
        """As Ctrl-C would."""

    def stop(progress: Progress) -> None:
        if progress.step == 4:
            raise Stopped

    with pytest.raises(Stopped):  # before anything was kept: nothing is broken
        train(CodeDecoder(base(), TOKENS, 2), pairs, options, tmp_path, report=stop)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(decoder_training, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def tick(progress: Progress) -> None:
        clock.now += 1

    for piece in range(1, 6):
        pieces = train(CodeDecoder(base(), TOKENS, 2), pairs, options, tmp_path, until=clock.now + 1, report=tick)
        assert pieces.step == min(2 * piece, 9)
    assert pieces.done
    assert pieces.losses == pytest.approx(whole.losses, rel=1e-5)
    again = CodeDecoder(base(), TOKENS, 2, seed=7)
    assert load(again, tmp_path).done
    assert again.trained().keys() == CodeDecoder(base(), TOKENS, 2).trained().keys()

    with pytest.raises(UsageError, match="of other examples, options or tokens"):
        train(CodeDecoder(base(), TOKENS, 2), pairs[:2], options, tmp_path)
    with pytest.raises(UsageError, match="begin anew with a lower rate"):
        train(CodeDecoder(base(), TOKENS, 2), pairs, Options(rank=2, rate=1e30, batch=2))
    with pytest.raises(UsageError, match="another model, rank"):
        load(CodeDecoder(base(), TOKENS, 3), tmp_path)
    with pytest.raises(UsageError, match="no examples"):
        train(again, [], options)
    with pytest.raises(EnvironmentProblem, match="no trained decoder"):
        load(again, tmp_path / "none")
    (tmp_path / CHECKPOINT).write_bytes(b"broken")
    with pytest.raises(UsageError, match="cannot be read"):
        train(again, pairs, options, tmp_path)


@pytest.mark.slow
def test_stage_two_teaches_to_call_and_the_mask_holds_inside_a_tool_alone() -> None:
    base()
    from atc_research.toolweaver.code_beam import write
    from atc_research.toolweaver.code_decoder import CodeDecoder
    from atc_research.toolweaver.decoder_training import Options, train

    turns = [
        Turn("user", "is it cold"),
        Turn("assistant", "I look. ", "weather/now", {"at": "Oslo"}),
        Turn("tool", "-3"),
        Turn("assistant", "Yes."),
    ]
    decoder = CodeDecoder(base(), TOKENS, 0)
    w = writer()
    train(decoder, [w.trajectory(turns, CODES)], Options(rank=0, rate=5e-3, epochs=120, batch=1, recompute=True))
    said = write(decoder, mask(), w.prompt("is it cold"), w.frame.end, most=60)
    assert said == [*read("I look. "), *TOKENS.ids(CODES["weather/now"]), *read('{"at": "Oslo"}'), *w.frame.end]
    raw = write(CodeDecoder(base(3), TOKENS, 2, seed=3), mask(), w.prompt("x"), w.frame.end, most=40)
    codes = [TOKENS.code(id) for id in raw if TOKENS.code(id)]
    assert set(zip(codes[::2], codes[1::2], strict=False)) <= {((0, a), (1, b)) for a, b in CODES.values()}


@pytest.mark.slow
def test_the_beam_is_exact_where_it_is_wide_enough() -> None:
    torch = pytest.importorskip("torch")
    base()
    from atc_research.toolweaver.code_beam import perplexity, say
    from atc_research.toolweaver.code_decoder import CodeDecoder

    decoder = CodeDecoder(base(), TOKENS, 2).eval()
    prompt = writer().prompt("is it cold")
    found = say(decoder, mask(), prompt, 3)
    for each in found:
        ids = torch.tensor([[*prompt, *TOKENS.ids(each.codes)]])
        with torch.no_grad():
            chances = torch.log_softmax(decoder.logits(decoder.hidden(ids)[0]), -1)
        score = chances[-3, ids[0, -2]] + chances[-2, ids[0, -1]]
        assert each.score == pytest.approx(float(score), rel=1e-4)
    assert sorted(each.codes for each in found) == sorted(CODES.values())
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert len(say(decoder, mask(), prompt, 1)) == 1
    empty = CodeMask(TOKENS, Trie(np.zeros((0, 2), np.int16)))
    assert say(decoder, empty, prompt) == []

    text = read("some plain words")
    wide = perplexity(lambda ids: decoder.logits(decoder.hidden(ids)[0]), text, window=5)
    own = perplexity(lambda ids: decoder.base(input_ids=ids).logits[0], text, window=5)
    assert 1 < own < wide, "new tokens take their part"
    with pytest.raises(UsageError, match="two tokens"):
        perplexity(lambda ids: ids, [1])


@pytest.mark.slow
def test_new_tokens_can_start_from_words() -> None:
    base()
    from atc_research.toolweaver.code_decoder import CodeDecoder

    decoder = CodeDecoder(base(), TOKENS, 2)
    drawn = decoder.rows.detach().clone()
    decoder.start_from([read("rain"), read("rain"), read("mail"), *[[]] * 5])
    rows = decoder.rows.detach()
    assert (rows[0] == rows[1]).all()
    assert (rows[0] != rows[2]).any()
    assert (rows[3:] == drawn[3:]).all()
    decoder.start_from([[]] * 8)
    assert (decoder.rows.detach() == rows).all()
    with pytest.raises(UsageError, match="begin at 1"):
        CodeDecoder(base(), CodeTokens(2, 4, 1), 2)


@pytest.mark.slow
def test_the_rate_rises_and_falls_and_batches_hold_every_example_once() -> None:
    base()
    from atc_research.toolweaver.decoder_training import Options, batches, scale

    rates = [scale(step, 100, 0.03) for step in range(100)]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] < 0.001
    assert scale(0, 1, 0.03) == 1
    pairs = [writer().pair("x" * (n % 50), (n % 4, n // 4 % 4)) for n in range(101)]
    made = list(batches(pairs, Options(epochs=2, batch=4)))
    assert sorted(id(each) for batch in made[:26] for each in batch) == sorted(map(id, pairs))
    assert made == list(batches(pairs, Options(epochs=2, batch=4)))
    assert made[:26] != made[26:]
    assert max(len({len(each.ids) for each in batch}) for batch in made) <= 4


@pytest.mark.slow
def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    base()
    from atc_research.toolweaver.code_decoder import opened

    with pytest.raises(EnvironmentProblem, match="is not there"):
        opened(tmp_path / "none.gguf")
    with pytest.raises(UsageError, match="no model that transformers can read"):
        opened(tmp_path)


def test_without_torch_a_line_says_what_is_missing() -> None:
    code = "import sys; sys.modules['torch'] = None; import atc_research.toolweaver.code_decoder"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert TRAIN in done.stderr
