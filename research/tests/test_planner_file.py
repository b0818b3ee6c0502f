"""A trained planner becomes a GGUF file that says the same without torch. It needs torch, but for what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc.errors import UsageError
from atc.models.base import Message

LETTERS = 256
SAID = [("user", "find a ticket"), ("assistant", "1. tickets 2. seats")]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def base_file(folder: Path, kind: str = "llama") -> Path:
    """A model of two layers over bytes, as a GGUF file."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("accelerate")  # transformers reads GGUF with it
    from tokenizers import pre_tokenizers

    torch.manual_seed(0)
    settings = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[kind](
        vocab_size=LETTERS + 3,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    model = transformers.AutoModelForCausalLM.from_config(settings)
    file = folder / f"{kind}.gguf"
    writer = gguf.GGUFWriter(file, kind)
    writer.add_name("tiny")
    for add, value in (
        (writer.add_block_count, 2),
        (writer.add_context_length, 512),
        (writer.add_embedding_length, 64),
        (writer.add_feed_forward_length, 128),
        (writer.add_head_count, 4),
        (writer.add_head_count_kv, 2),
        (writer.add_rope_dimension_count, 16),
        (writer.add_layer_norm_rms_eps, settings.rms_norm_eps),
        (writer.add_rope_freq_base, 10_000.0),
        (writer.add_vocab_size, LETTERS + 3),
    ):
        add(value)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*letters, "ĠĠ", "<|im_start|>", "<|im_end|>"])
    writer.add_token_types([1] * (LETTERS + 1) + [3, 3])
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(LETTERS + 1)
    writer.add_eos_token_id(LETTERS + 2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, kind.upper()), 2)
    for own, value in model.named_parameters():
        name = names.get_name(own, try_suffixes=(".weight", ".bias"))
        found = value.detach().float().numpy()
        if kind == "llama" and (".attn_q." in name or ".attn_k." in name):
            heads = 4 if ".attn_q." in name else 2
            found = found.reshape(heads, 2, 8, 64).swapaxes(1, 2).reshape(found.shape).copy()
        writer.add_tensor(name, found)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def planner(file: Path, rank: int) -> Any:
    from atc_research.toolqp.planner import Planner
    from atc_research.toolweaver.code_decoder import opened

    return Planner(opened(file, "float32"), rank, 256)


def taught(file: Path, rank: int) -> Any:
    from atc_research.toolweaver.decoder_training import Options, train

    made = planner(file, rank)
    train(made, [made.example(SAID)], Options(rank=rank, rate=1e-2, epochs=80, batch=1, at_once=1))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rank"), [("llama", 4), ("llama", 0), ("qwen2", 4), ("qwen2", 0)])
def test_the_file_has_the_trained_weights(kind: str, rank: int, tmp_path: Path) -> None:
    base = base_file(tmp_path, kind)
    import torch

    from atc_research.toolqp.planner_file import write
    from atc_research.toolweaver.code_decoder import LowRank, opened

    made = planner(base, rank)
    before = {name: value.clone() for name, value in made.base.state_dict().items()}
    with torch.no_grad():
        for name, value in made.named_parameters():
            if value.requires_grad:
                value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name))))
    write(made, base, tmp_path / "planner.gguf")
    assert not list(tmp_path.glob("*.part"))
    again = dict(opened(tmp_path / "planner.gguf", "float32").model.named_parameters())
    wanted = dict(made.base.named_parameters())
    if rank:
        wanted = {f"{name}.weight": each.merged() for name, each in made.base.named_modules() if type(each) is LowRank}
    assert len(wanted) >= 14
    for name, value in wanted.items():
        assert torch.allclose(again[name], value, atol=float(value.abs().max()) / 100), name
    if rank:  # what was not trained is as it was
        assert torch.equal(again["model.norm.weight"], before["model.norm.weight"])
        assert torch.equal(again["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


@pytest.mark.slow
@pytest.mark.parametrize("rank", [4, 0])
def test_the_embedded_runtime_says_what_the_planner_was_taught(rank: int, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    base = base_file(tmp_path)
    from atc.models.embedded import EmbeddedModel
    from atc_research.toolqp.planner_file import write

    file = tmp_path / "planner.gguf"
    write(taught(base, rank), base, file)

    async def said(path: Path) -> str:
        model = EmbeddedModel(path, context_tokens=512, threads=1, keep="nothing")
        try:
            return (await model.complete([Message(*SAID[0])], max_tokens=40)).text  # type: ignore[arg-type]
        finally:
            await model.aclose()

    assert asyncio.run(said(file)) == SAID[1][1]
    assert asyncio.run(said(base)) != SAID[1][1]


@pytest.mark.slow
def test_what_cannot_be_written_is_refused_before_a_training(tmp_path: Path) -> None:
    base = base_file(tmp_path)
    from atc_research.toolqp.planner_file import check

    check(base, tmp_path / "planner.gguf")
    with pytest.raises(UsageError, match="is the base"):
        check(base, base)
    with pytest.raises(UsageError, match="is no folder"):
        check(base, tmp_path / "none" / "planner.gguf")
    with pytest.raises(UsageError, match="is no GGUF file"):
        check(tmp_path, tmp_path / "planner.gguf")
