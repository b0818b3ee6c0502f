"""Tools of other frameworks: objects of LangChain, pydantic-ai and smolagents become tools, one function for each.

The frameworks are imported when one of the functions is called and not before. What an object says about itself (its
schemas and descriptions) becomes a protocol; a call goes to the object as its own framework would make it.
"""

from __future__ import annotations

from atc.tools.adapters.langchain import import_langchain
from atc.tools.adapters.pydantic_ai import import_pydantic_ai
from atc.tools.adapters.smolagents import import_smolagents

__all__ = ["import_langchain", "import_pydantic_ai", "import_smolagents"]
