"""A language model that is asked for the layers of a task's tools, as a method of :mod:`benchmarks.layers`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

from atc.graph.layer_model import LAYERS
from atc.models.base import Message, Model
from atc.models.messages import ModelRequest, Sampling
from atc.retrieval.dialogue import visible_reply
from atc.tools.parameters import parameters_of
from benchmarks.layers_data import LayerData, LayerTask
from benchmarks.layers_methods import Layers, Method

MAX_TOKENS = 120
"""Of a reply: a line of numbers for each layer."""
_MAX_DESCRIPTION = 200


class Asked(Method):
    """A model is shown the task and the tools, once a task; a tool that it does not name stands in the first layer."""

    name = "model asked"

    def __init__(self, data: LayerData, model: Model) -> None:
        self._data, self._model, self._runner = data, model, asyncio.Runner()
        loader = jinja2.FileSystemLoader(Path(__file__).with_name("prompts"))
        settings = {"undefined": jinja2.StrictUndefined, "autoescape": False, "trim_blocks": True}
        self._template = jinja2.Environment(loader=loader, **settings).get_template("layers.jinja")  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the model."""
        with self._runner as runner:
            runner.run(self._model.aclose())

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        shown = []
        for protocol in self._data.of(tools).values():
            parameters = ", ".join(each.name for each in parameters_of(protocol))
            about = " ".join(protocol.description.split())[:_MAX_DESCRIPTION]
            shown.append({"name": protocol.name, "parameters": parameters, "description": about})
        prompt = self._template.render(task=task.text, tools=shown, most=LAYERS)
        request = ModelRequest((Message("user", prompt),), Sampling(max_tokens=MAX_TOKENS))
        return layers_in(self._runner.run(self._model.generate(request)).text, tools)


def layers_in(reply: str, tools: Sequence[str]) -> dict[str, int]:
    """The layers in a reply: a line each, with the numbers of its tools. Of a tool in several the first counts."""
    found: dict[str, int] = {}
    layer = 0
    for line in visible_reply(reply).splitlines():
        body = re.sub(r"^\s*(?:step|layer)?\s*\d+\s*[:.)]\s", "", line, flags=re.IGNORECASE)
        numbers = [int(each) for each in re.findall(r"\d+", body) if len(each) < 4]
        named = [tools[each - 1] for each in numbers if 0 < each <= len(tools)]
        for tool in named:
            found.setdefault(tool, min(layer, LAYERS - 1))
        layer += bool(named)
    return {tool: found.get(tool, 0) for tool in tools}
