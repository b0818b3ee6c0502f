"""What real endpoints say of a prompt that is too long is read as numbers; their other errors are not taken for it."""

from __future__ import annotations

from typing import Any

import pytest

from atc.models.endpoint_errors import exceeded

# As they were sent: from the servers' public bug reports and the clients that list them.
TOO_LONG: list[tuple[str, str, int | None, int | None]] = [
    (
        "OpenAI, prompt and reply",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        8192, 9000,
    ),
    (
        "OpenAI, prompt alone",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 249114 tokens. "
        "Please reduce the length of the messages.",
        128000, 249114,
    ),
    (
        "OpenAI, completions",
        "This model's maximum context length is 4097 tokens, however you requested 4231 tokens (3975 in your prompt; "
        "256 for the completion). Please reduce your prompt; or completion length.",
        4097, 4231,
    ),
    (
        "OpenAI, newer",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please "
        "reduce the length of the messages.",
        272000, 300123,
    ),
    (
        "OpenAI, responses",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None, None,
    ),
    (
        "OpenAI, above a minute's tokens",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 32914. The "
        "input or output tokens must be reduced in order to run successfully.",
        30000, 32914,
    ),
    (
        "Groq, above a minute's tokens",
        "Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens "
        "per minute (TPM): Limit 6000, Requested 6332, please reduce your message size and try again.",
        6000, 6332,
    ),
    ("Groq", "Please reduce the length of the messages or completion.", None, None),
    (
        "vLLM",
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        16384, 122946,
    ),
    (
        "vLLM, the reply counted by itself",
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
        "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        4096, 4104,
    ),
    (
        "vLLM, a total",
        "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your "
        "prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce the length "
        "of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=134145)",
        262144, 262145,
    ),
    (
        "vLLM, the prompt alone",
        "This model's maximum context length is 40960 tokens. However, your request has 91714 input tokens. Please "
        "reduce the length of the input messages.",
        40960, 91714,
    ),
    (
        "vLLM, V1",
        "The decoder prompt (length 10017) is longer than the maximum model length of 8192. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        8192, 10017,
    ),
    (
        "vLLM, multimodal",
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that "
        "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
        4096, 25938,
    ),
    (
        "SGLang",
        "The input (85050 tokens) is longer than the model's context length (32768 tokens).",
        32768, 85050,
    ),
    (
        "SGLang, a total",
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of "
        "34000 tokens: 32000 tokens from the input messages and 2000 tokens for the completion.",
        32768, 34000,
    ),
    (
        "SGLang, memory",
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        59862, 160062,
    ),
    (
        "LMDeploy",
        "This model's maximum context length is 8192 tokens but 9000 tokens are required(8000 for input, 1000 for "
        "completion). Please reduce the length of the messages or completion.",
        8192, 9000,
    ),
    (
        "text-generation-webui",
        "This model maximum context length is 4096 tokens. However, your messages resulted in over 4443 tokens.",
        4096, 4443,
    ),
    (
        "OpenRouter",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 132463 tokens (1463 of "
        "text input, 131000 in the output). Please reduce the length of either one.",
        131072, 132463,
    ),
    (
        "LiteLLM around another",
        "litellm.BadRequestError: OpenAIException - Input length (265330) exceeds model's maximum context length "
        "(262144).",
        262144, 265330,
    ),
    (
        "llama.cpp",
        "request (3030 tokens) exceeds the available context size (1024 tokens), try increasing it",
        1024, 3030,
    ),
    (
        "llama.cpp, older",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None, None,
    ),
    ("llama-cpp-python", "Requested tokens (2285) exceed context window of 2048", 2048, 2285),
    (
        "LM Studio",
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context "
        "length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or "
        "provide a shorter input.",
        32768, 111490,
    ),
    (
        "LM Studio, newer",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 15970 >= "
        "n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
        4096, 15970,
    ),
    ("Ollama", "prompt too long; exceeded max context length by 4096 tokens", None, None),
    ("Ollama, embeddings", "the input length exceeds the context length", None, None),
    (
        "text-generation-inference",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and "
        "1024 `max_new_tokens`",
        65537, 81017,
    ),
    (
        "text-generation-inference, the prompt alone",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 1398",
        1024, 1398,
    ),
    ("Anthropic", "prompt is too long: 208310 tokens > 200000 maximum", 200000, 208310),
    (
        "Anthropic, with the reply",
        "input length and `max_tokens` exceed context limit: 198157 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
        200000, 219490,
    ),
    (
        "Gemini",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1048575, 1196265,
    ),
    (
        "Gemini, without a count",
        "The input token count exceeds the maximum number of tokens allowed 1048576.",
        1048576, None,
    ),
    (
        "xAI",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131072, 537812,
    ),
    (
        "Mistral",
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768, 65673,
    ),
    (
        "Together",
        "The input (265330 tokens) is longer than the model's context length (262144 tokens).",
        262144, 265330,
    ),
    (
        "Poolside",
        "Input length 265330 exceeds the maximum allowed input length of 262,144 tokens.",
        262144, 265330,
    ),
    ("GitHub Copilot", "prompt token count of 51808 exceeds the limit of 12288", 12288, 51808),
    ("Moonshot", "Your request exceeded model token limit: 262144 (requested: 300000)", 262144, 300000),
    ("DashScope", "Range of input length should be [1, 129024]", 129024, None),
    ("MiniMax", "invalid params, context window exceeds limit", None, None),
    ("Bedrock", "Input is too long for requested model.", None, None),
    (
        "Bedrock, counted",
        "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279",
        8192, 9279,
    ),
    (
        "Baseten",
        "Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.",
        4096, 5441,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("said", "limit", "asked"), [row[1:] for row in TOO_LONG], ids=[row[0] for row in TOO_LONG])
def test_a_prompt_that_is_too_long_is_known_by_the_endpoints_words(
    said: str, limit: int | None, asked: int | None
) -> None:
    found = exceeded(said)
    assert found is not None
    assert (found.limit, found.requested) == (limit, asked)
    wrapped = exceeded("An error occurred during streaming", {"error": {"message": said}})
    assert wrapped == found
    assert exceeded("An error occurred during streaming", said) == found


@pytest.mark.parametrize(
    ("body", "limit", "asked"),
    [
        ({"message": "no", "code": "context_length_exceeded"}, None, None),
        ({"message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}, 256, 1407),
        ({"error": {"message": "no", "type": "request_too_large"}}, None, None),
        ({"message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": True, "n_ctx": -5}, None, None),
        ({"message": 5, "code": "context_length_exceeded", "n_ctx": [1]}, None, None),
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_its_code(
    body: dict[str, Any], limit: int | None, asked: int | None
) -> None:
    found = exceeded("", body)
    assert found is not None
    assert (found.limit, found.requested) == (limit, asked)


@pytest.mark.parametrize(
    "said",
    [
        "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, "
        "Requested 5000. Please try again in 6s.",
        "Throttling error: Too many tokens, please wait before trying again.",
        "Request too large for model `qwen` in organization `o` on output tokens per minute (OTPM): Limit 1000, "
        "Requested 1295. The request's expected output tokens exceed the enforced limit; reduce max_tokens",
        "You exceeded your current quota, please check your plan and billing details.",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided "
        "100000.",
        "max_tokens is too large: 8232 > 4096",
        "max_tokens must be at least 1, got -186.",
        "Tool argument validation failed: input length exceeds 1000 characters",
        "System role not supported",
        "",
    ],
)
def test_other_errors_are_not_taken_for_it(said: str) -> None:
    assert exceeded(said) is None
    assert exceeded("An error occurred during streaming", {"message": said, "type": "tokens", "code": 429}) is None


@pytest.mark.parametrize("body", [None, 5, [], {"error": []}, {"error": None, "code": [1]}])
def test_bodies_of_any_shape_are_read(body: object) -> None:
    assert exceeded("no", body) is None


def test_a_flood_is_cut_before_it_is_read() -> None:
    found = exceeded("prompt is too long: 9 tokens > 8 maximum " + "maximum context length is " * 200_000)
    assert found is not None
    assert (found.limit, found.requested) == (8, 9)
    assert exceeded("request too large for " * 100_000) is None
