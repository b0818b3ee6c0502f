"""A model behind an OpenAI-compatible endpoint answers a question. Where none is set, this machine serves one.

python examples/endpoint.py
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from atc import Agent
from atc.atlas import atlas_toolset


@contextmanager
def endpoint() -> Iterator[tuple[str, str, str]]:
    """The address, the key and the model's name: those that are set, else those of `atc model serve`."""
    if "OPENAI_BASE_URL" in os.environ:
        yield os.environ["OPENAI_BASE_URL"], os.environ.get("OPENAI_API_KEY", "none"), os.environ["ATC_MODEL"]
        return
    key = secrets.token_urlsafe()
    command = [sys.executable, "-m", "atc", "model", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"ATC_SERVE_KEY": key}
    ) as server:
        assert server.stderr is not None
        try:
            for line in server.stderr:
                print(line.rstrip())
                if line.startswith("serving "):  # serving NAME at ADDRESS (log: FILE); Ctrl-C ends it
                    words = line.split()
                    yield words[3], key, words[1]
                    break
            else:
                raise SystemExit("the server did not start: see its lines above")
        finally:
            server.send_signal(signal.SIGINT)


with (
    endpoint() as (base_url, api_key, name),
    Agent(atlas_toolset().only("find_cities"), model=name, base_url=base_url, api_key=api_key) as agent,
):
    result = agent.run("How many people live in Lyon, France? Answer with the number.")

print(result.usage.model_calls, "replies,", result.usage.prompt_tokens, "+", result.usage.completion_tokens, "tokens")
print(result.answer)
print(result.status, result.value)
