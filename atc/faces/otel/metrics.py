"""The metrics: those of the conventions, and our own where these have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.metrics import Histogram, Meter

from atc.faces.otel import conventions as names

_MODEL_S = [0.01 * 2**power for power in range(14)]
_RUN_S = [0.1 * 2**power for power in range(13)]
_COUNTS = [float(2**power) for power in range(8)]
_WAIT_S = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0]

Attributes = Mapping[str, Any]


class Metrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, description: str, buckets: list[float]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=description, explicit_bucket_boundaries_advisory=buckets
            )

        self.run_duration = histogram("gen_ai.invoke_agent.duration", "s", "Duration of a run.", _RUN_S)
        self.run_inferences = histogram(
            "gen_ai.invoke_agent.inference_calls", "{inference_call}", "Model calls of a run.", _COUNTS
        )
        self.run_tool_calls = histogram(
            "gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls of a run.", _COUNTS
        )
        self.tool_duration = histogram("gen_ai.execute_tool.duration", "s", "Duration of a tool call.", _MODEL_S)
        self.model_duration = histogram("gen_ai.client.inference.duration", "s", "Duration of a model call.", _MODEL_S)
        self.first_chunk = histogram(
            "gen_ai.client.inference.time_to_first_chunk", "s", "Time until a reply begins.", _MODEL_S
        )
        self.retrieval_duration = histogram(
            "gen_ai.client.operation.duration", "s", "Duration of finding tools.", _MODEL_S
        )
        self.approval_wait = histogram("atc.approval.wait", "s", "Time for which an approval was waited for.", _WAIT_S)
        self.runs = meter.create_counter("atc.runs", "{run}", "Runs that ended, by status.")
        self.calls = meter.create_counter("atc.tool_calls", "{tool_call}", "Tool calls that ended, by status.")
        self._input = meter.create_counter(
            "gen_ai.client.inference.usage.input_tokens", "{token}", "Tokens of prompts."
        )
        self._output = meter.create_counter(
            "gen_ai.client.inference.usage.output_tokens", "{token}", "Tokens of replies."
        )
        self._cached = meter.create_counter(
            "gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", "Tokens of prompts, read from a cache."
        )

    def tokens(self, prompt: int, completion: int, cached: int, about: Attributes, *, images: bool) -> None:
        """Count the tokens of one model call, also of one that failed.

        Args:
            prompt: tokens of the prompt, those from a cache included.
            completion: tokens of the replies.
            cached: tokens of the prompt that were read from a cache.
            about: attributes of the call.
            images: the prompt has some: nobody says how many tokens they took.
        """
        read = {**about, names.MODALITY: "unknown" if images or not prompt else "text"}
        self._input.add(prompt, read)
        self._output.add(completion, {**about, names.MODALITY: "text" if completion else "unknown"})
        if cached:
            self._cached.add(cached, read)
