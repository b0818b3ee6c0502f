"""A language model of two layers, for trainings of seconds; a test that asks for it is skipped without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def base(seed: int = 0, tied: bool = True) -> Any:
    """A causal language model of two layers, over bytes and two control tokens."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=258,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config)


def model_in(folder: Path) -> Path:
    """A model of two layers with a tokenizer of bytes, as transformers writes them."""
    model = base()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
