"""How many tokens a second the embedded model writes, without drafts and with drafts of several kinds and lengths.

``python -m benchmarks.drafts --folder DIR [--replies 50] [--drafts none] [--drafts ngram_mod:5:2:6] …``

Replies are real: the agent solves tasks of ``benchmarks/atlas_tasks.toml`` (drawn by hash, with the tools that each
needs), and every prompt for a program is written down in DIR, with what the model had read of it. Then each is answered
again, greedily, with every kind of drafts; so only writing is timed. DIR keeps all: the same command goes on.
``KIND:MATCH:SHORTEST:LONGEST`` are the fields of :class:`atc.models.embedded_process.Drafts`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from atc.agent import Agent
from atc.atlas.catalogue import atlas_toolset
from atc.models.base import Message, Model, ModelRequest, Reply
from atc.models.embedded import EmbeddedModel
from atc.models.embedded_process import Drafts, EmbeddedServer, ServerSettings
from benchmarks.common import show

TASKS = Path(__file__).with_name("atlas_tasks.toml")
KINDS = ("none", "ngram_simple:5:1:6", "ngram_mod:5:2:6", "ngram_mod:24:48:64")


class Recorder(Model):
    """Answers from a server, and keeps each prompt for a program with what the server's slot holds of it."""

    name, context_tokens = "recorder", 16_384

    def __init__(self, server: EmbeddedServer, folder: Path, task: str) -> None:
        self._server, self._folder, self._task = server, folder, task
        self.asked = 0

    async def generate(self, request: ModelRequest) -> Reply:
        return await asyncio.to_thread(self._complete, request.messages, request.sampling.max_tokens)

    def _complete(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        prompt = [{"role": message.role, "content": message.content} for message in messages]
        ask(self._server, prompt, 1)
        name = f"{self._task}-{self.asked}"
        self._server._slot("save", f"{name}.slot")
        answer = ask(self._server, prompt, max_tokens)
        record = {"messages": prompt, "max_tokens": max_tokens, "text": answer["text"], "first": not self.asked}
        (self._folder / f"{name}.json").write_text(json.dumps(record))
        self.asked += 1
        return Reply(answer["text"], answer["finish"], 0, answer["tokens"], answer["seconds"])


def ask(server: EmbeddedServer, messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
    """One greedy reply with the server's own timings."""
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0.0, "cache_prompt": True}
    headers = {"Authorization": f"Bearer {server.api_key}"}
    with httpx.Client(trust_env=False, timeout=1800) as client:
        got = client.post(f"{server.url}/chat/completions", json=body, headers=headers).raise_for_status().json()
    choice, timings = got["choices"][0], got["timings"]
    return {
        "text": choice["message"]["content"],
        "finish": "stop" if choice["finish_reason"] == "stop" else "length",
        "tokens": timings["predicted_n"],
        "seconds": timings["predicted_ms"] / 1000,
        "drafted": timings.get("draft_n", 0),
        "accepted": timings.get("draft_n_accepted", 0),
    }


def settings(folder: Path, drafts: Drafts | None) -> ServerSettings:
    return replace(EmbeddedModel().settings, drafts=drafts, prompts_dir=str(folder))


def record(folder: Path, replies: int) -> list[Path]:
    """Prompts for programs, until there are so many."""
    tasks = tomllib.loads(TASKS.read_text())["task"]
    tasks.sort(key=lambda task: hashlib.sha1(task["id"].encode()).hexdigest())
    tools = atlas_toolset()
    server: EmbeddedServer | None = None
    for task in tasks:
        kept = sorted(folder.glob("*.json"))
        if len(kept) >= replies or any(path.name.startswith(f"{task['id']}-") for path in kept):
            continue
        server = server or EmbeddedServer(settings(folder, None))
        used = [name for name in task["tools"] if re.search(rf"\b{name}\(", task["reference"])]
        model = Recorder(server, folder, task["id"])
        with Agent(tools.only(*used), model=model, sentence=False, keep_runs=False, max_revisions=2) as agent:
            print(f"{task['id']}: {agent.run(task['task']).status}, {model.asked} prompts", flush=True)
    if server is not None:
        server.stop()
    return sorted(folder.glob("*.json"))[:replies]


def replay(folder: Path, prompts: Sequence[Path], kind: str) -> list[dict[str, Any]]:
    """Each reply once more, with one kind of drafts."""
    server, made = EmbeddedServer(settings(folder, _drafts(kind))), []
    try:
        for path in prompts:
            prompt = json.loads(path.read_text())
            server._slot("restore", f"{path.stem}.slot")
            answer = ask(server, prompt["messages"], min(220, prompt["max_tokens"]))
            same = answer["text"] == prompt["text"][: len(answer["text"])]
            made.append({**answer, "same": same, "first": prompt["first"]})
    finally:
        server.stop()
    return made


def _drafts(kind: str) -> Drafts | None:
    if kind == "none":
        return None
    name, match, shortest, longest = kind.split(":")
    return Drafts(name, int(match), int(shortest), int(longest))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--replies", type=int, default=50)
    parser.add_argument("--drafts", action="append")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    prompts, rows = record(args.folder, args.replies), []
    for kind in args.drafts or KINDS:
        made = replay(args.folder, prompts, kind)
        for what, first in (("first", True), ("revisions", False)):
            some = [each for each in made if each["first"] is first]
            tokens, seconds = sum(each["tokens"] for each in some), sum(each["seconds"] for each in some)
            drafted, accepted = sum(each["drafted"] for each in some), sum(each["accepted"] for each in some)
            same = f"{sum(each['same'] for each in some)} of {len(some)}"
            rows.append((kind, what, f"{tokens / max(seconds, 1e-9):.1f}", drafted, accepted, same))
    show("tokens written a second", ("drafts", "programs", "tokens/s", "drafted", "accepted", "same text"), rows)


if __name__ == "__main__":
    main()
