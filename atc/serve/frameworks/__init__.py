"""An agent as one tool of another framework's agent: a task goes in, an answer comes out; and as a solver of Inspect.

The framework is imported when its function is called and not before.
"""

from __future__ import annotations

from atc.serve.frameworks.inspect import to_inspect
from atc.serve.frameworks.langchain import to_langchain
from atc.serve.frameworks.pydantic_ai import to_pydantic_ai
from atc.serve.frameworks.smolagents import to_smolagents

__all__ = ["to_inspect", "to_langchain", "to_pydantic_ai", "to_smolagents"]
