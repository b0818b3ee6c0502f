"""A sample of Inspect from the side of a run: its model, its tools, its task in words.

What Inspect itself ends a sample by (a limit, an approver that terminates, a failure of the provider or of a tool's
code) is no matter of the run: it goes to Inspect as it was raised, and the run is stopped.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentText,
    execute_tools,
    get_model_info,
)
from inspect_ai.tool import ToolCall, ToolCallError, ToolDef

from atc.errors import ContextExceeded, ModelError, ToolError
from atc.models.base import Message, Model, ModelRequest, Reply, estimate_tokens
from atc.models.messages import FinishReason

if TYPE_CHECKING:
    from inspect_ai.model import Model as TheirModel
    from inspect_ai.solver import TaskState

_CONTEXT = 128_000
"""Tokens of a context that Inspect knows nothing about."""
_NOT_DONE = frozenset({"file_not_found", "is_a_directory", "unicode_decode"})
"""Failures of a tool of Inspect before it did anything."""


class SampleEnded(asyncio.Future[None]):
    """Holds the exception that Inspect ends the sample by, as soon as there is one."""

    def by(self, error: BaseException) -> None:
        """Note the first such exception."""
        if not self.done():
            self.set_exception(error)


class SampleModel(Model):
    """The model of an evaluation. How its replies are sampled is Inspect's (``--temperature``, ``--max-tokens`` …).

    Args:
        model: to ask.
        ended: gets what the model raises.

    Attributes:
        said: the last reply, until a call has taken it (:class:`SampleCalls`).
    """

    takes_images = None

    def __init__(self, model: TheirModel, ended: SampleEnded) -> None:
        self.name = str(model)
        info = get_model_info(model)
        self.context_tokens = (None if info is None else info.context_length) or _CONTEXT
        self.said = ""
        self._model, self._ended = model, ended

    async def generate(self, request: ModelRequest) -> Reply:
        """Make one reply. What Inspect raises ends the sample."""
        began = asyncio.get_running_loop().time()
        try:
            output = await self._model.generate([_message(each) for each in request.messages])
        except Exception as error:
            self._ended.by(error)
            raise ModelError(f"{type(error).__name__}: {error}") from error
        if output.stop_reason == "model_length":
            raise ContextExceeded(f"{self.name} takes no prompt of this length")
        text = output.completion
        stops = [at for end in request.sampling.stop if (at := text.find(end)) >= 0]
        text = self.said = text[: min(stops, default=len(text))]
        usage = output.usage
        finish: dict[str, FinishReason] = {"stop": "stop", "max_tokens": "length"}
        return Reply(
            text,
            finish.get(output.stop_reason, "other"),
            estimate_tokens(request.messages) if usage is None else max(usage.total_tokens - usage.output_tokens, 0),
            estimate_tokens(text) if usage is None else usage.output_tokens,
            asyncio.get_running_loop().time() - began,
            model=self.name,
            problem="" if text else output.error or f"the reply is empty ({output.stop_reason})",
            cached_tokens=0 if usage is None else usage.input_tokens_cache_read or 0,
        )


class SampleCalls:
    """Makes the calls of a run one after the other, as Inspect makes those of a model: asked about by its approval,
    and kept in the messages of the sample. The first call of a program has the program in front.

    Args:
        state: of the sample.
        model: that wrote the program.
        ended: gets what ends the sample.
    """

    def __init__(self, state: TaskState, model: SampleModel, ended: SampleEnded) -> None:
        self._state, self._model, self._ended = state, model, ended
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, tool: ToolDef, arguments: dict[str, Any]) -> Any:
        """Make one call and return what the tool returned.

        Raises:
            ToolError: it was not approved, or failed.
        """
        async with self._one_at_a_time:
            if self._ended.done():  # of several calls at once, those behind the one that ended it
                raise ToolError("the sample has ended", outcome="refused")
            returned: list[Any] = []
            entered = False

            @functools.wraps(tool.tool)
            async def noted(*args: Any, **kwargs: Any) -> Any:
                nonlocal entered
                entered = True
                returned.append(await tool.tool(*args, **kwargs))
                return returned[-1]

            call = ToolCall(id=f"call_{uuid.uuid4().hex[:16]}", function=tool.name, arguments=arguments)
            said, self._model.said = self._model.said, ""
            messages, made = self._state.messages, list[ChatMessage]()
            try:
                messages.append(ChatMessageAssistant(content=said, tool_calls=[call], model=self._model.name))
                made = (await execute_tools(messages, [_with_code(tool, noted)])).messages
                messages.extend(made)
            except Exception as error:
                self._ended.by(error)
                raise ToolError(
                    f"the sample ends here: {type(error).__name__}", outcome="unknown" if entered else "refused"
                ) from error
            finally:
                if not made:  # a call without a response is no conversation that a provider or a scorer takes
                    _answer_cut_off(messages, call)
            for message in made:
                if isinstance(message, ChatMessageTool) and message.error is not None:
                    raise _failed(message.error, entered=entered)
            return returned[0] if returned else None


def _with_code(tool: ToolDef, code: Any) -> ToolDef:
    return ToolDef(
        code,
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        parallel=tool.parallel,
        viewer=tool.viewer,
        model_input=tool.model_input,
        max_output=tool.max_output,
        options=tool.options,
    )


def _answer_cut_off(messages: list[ChatMessage], call: ToolCall) -> None:
    if messages and getattr(messages[-1], "tool_calls", None) == [call]:
        error = ToolCallError("cancelled", "The call was stopped.")
        answer = ChatMessageTool(content="", tool_call_id=call.id, function=call.function, error=error)
        # The list refuses a message over the limit; this one belongs to a message that it took.
        list.append(messages, answer)


def _failed(error: ToolCallError, *, entered: bool) -> ToolError:
    """Return the failure of a call. Before its code was entered nothing was done; else its effect decides."""
    if error.type == "approval":
        return ToolError(error.message, status="denied", outcome="refused", cause="denied")
    done_nothing = not entered or error.type in _NOT_DONE
    status = "invalid_arguments" if error.type == "parsing" and not entered else error.type
    status = "error" if status == "unknown" else status
    return ToolError(error.message, status=status, outcome="refused" if done_nothing else "unknown")


def _message(message: Message) -> ChatMessage:
    if message.role == "system":
        return ChatMessageSystem(content=message.content)
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.content)
    if not message.images:
        return ChatMessageUser(content=message.content)
    shown: list[Content] = [ContentText(text=message.content)]
    shown += [ContentImage(image=image.data_url) for image in message.images]
    return ChatMessageUser(content=shown)


def task_of(messages: Sequence[ChatMessage]) -> str:
    """Return the task of a sample in words: what its system messages say, then its input. A conversation is told with
    who said what."""
    policy = [message.text.strip() for message in messages if message.role == "system"]
    said = [message for message in messages if message.role != "system"]
    if len(said) == 1:
        asked = said[0].text.strip()
    else:
        asked = "\n\n".join(f"{message.role}: {message.text.strip()}" for message in said)
    return "\n\n".join(filter(None, [*policy, asked]))


def images_of(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the images of the input: ``data:`` URLs and paths."""
    parts = [part for message in messages if not isinstance(message.content, str) for part in message.content]
    return [part.image for part in parts if isinstance(part, ContentImage)]
