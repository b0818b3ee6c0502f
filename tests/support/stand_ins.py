"""What the snippets of the documents name, small and on this machine: files, services, servers and a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from atc.catalogue.index.index import ToolIndex
from atc.schemas.protocol import Protocol
from benchmarks.kills import batch as batch_kills
from tests.support import docker, mcp, openapi, probe, ruler, service, slang
from tests.support.docs import ROOT
from tests.support.fake_openai_server import Handler, says, serving
from tests.support.probe_services import add_goods
from tests.support.retrieval import HashedWords, protocol
from tests.support.tiny_model import model_in

# -- models ------------------------------------------------------------------------------------------------------------


class Encoder(HashedWords):
    """In place of the encoder that is fetched; an index knows it again by its digest."""

    dimensions = 64

    digest = hashlib.sha256(b"hashed").hexdigest()


KEY = "a-key"
ENCODERS = (
    "atc.catalogue.index.minilm.MiniLM",
    "atc.cli.find.MiniLM",
    "atc_research_benchmarks.search_data.MiniLM",
)
"""Where commands find their encoder."""
FERRY = """\
harbours = {each["title"]: each["harbour_id"] for each in get_harbours()["items"]}
for crossing in get_crossings(harbour_id=harbours["Alma"])["items"]:
    if crossing["bound_for"] == "Brekk":
        answer = get_fares(crossing_id=crossing["crossing_id"])["adult"]"""
PROGRAMS = [
    (r"find_cities", 'answer = find_cities(name="Lyon", country_code="FR")["cities"][0]["population"]'),
    (r"get_fares", FERRY),
    (r"get_good\b", 'answer = get_good(good_id=list_goods()[0]["good_id"])["price"]'),
    (r"\b(convert|count)_\w+", 'answer = {tool}(name="Ann")["found"]'),
    (r"\bthing_\w+", 'answer = {tool}()["found"]'),
    (r"list_films", 'answer = list_films()["films"]'),
    (r"list_products", 'answer = list_products()["found"]'),
    (r"shop_get_item", 'answer = shop_get_item(product_id="p1")["price"]["cents"]'),
]
"""What the model writes where a prompt names such a tool."""


def answering(handler: Handler) -> None:
    """A step of an endpoint: pick the first line of a menu, else write the program for the tools of the prompt."""
    text = json.dumps(handler.server.requests[-1]["messages"])
    programs = ((program, re.search(pattern, text)) for pattern, program in PROGRAMS)
    written = next((program.replace("{tool}", found[0]) for program, found in programs if found), "answer = None")
    reply = '{"pick": [1]}' if "You pick tools from the menu" in text else f"```python\n{written}\n```"
    (says if handler.server.requests[-1].get("stream") else ruler.says)(reply)(handler)


# -- files -------------------------------------------------------------------------------------------------------------


def openapi_of(protocols: list[Protocol], url: str) -> dict[str, Any]:
    """The document of a service whose operations are these."""
    paths = {}
    for each in protocols:
        names = each.parameters.get("properties", {})
        given = [{"name": name, "in": "query", "required": True, "schema": {"type": "string"}} for name in names]
        returns = {"type": "object", "properties": {"found": {"type": "integer"}}}
        operation = openapi.operation(*given, returns=returns, operationId=each.name, description=each.description)
        paths[f"/{each.name}"] = {"get": operation}
    return openapi.document(paths, servers=[{"url": url}])


def write_files(folder: Path, url: str) -> None:
    """The files that snippets name; the operations of their services answer at an address."""
    shop = [protocol("list_products", "List the products."), protocol("find_order", "Find an order.", "number")]
    (folder / "shop.yaml").write_text(yaml.safe_dump(openapi_of(shop, url)))
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(openapi_of(many_tools(), url)))
    (folder / "tasks.jsonl").write_text('"Which products are there?"\n{"id": "again", "task": "And now?"}\n')
    lines = [json.dumps({"query": pair.query, "gold": pair.gold}) for pair in asked()]
    (folder / "pairs.jsonl").write_text("\n".join(lines))


def many_tools() -> list[Protocol]:
    """More tools than are all shown to a model."""
    kinds, things = ("convert", "count"), ("money", "songs", "words")
    more = [protocol(f"{a}_{b}", f"To {a} {b}.", "name") for a in kinds for b in things]
    return more + [each for each in slang.tools() if each.name.islower()]


def asked() -> list[slang.Pair]:
    """Queries for these tools, in words of users."""
    return [pair for pair in slang.pairs() if pair.gold[0].islower()]


# -- services ----------------------------------------------------------------------------------------------------------


@contextmanager
def operations() -> Iterator[str]:
    """A service whose every operation finds seven."""
    with openapi.running_server() as server:
        server.answer = openapi.Answer(b'{"found": 7}')
        yield server.url


@contextmanager
def goods() -> Iterator[str]:
    """A service that says nothing but names."""
    with probe.running() as running:
        add_goods(running)
        running.route("document", "/openapi.json", running.document())
        yield running.url


@contextmanager
def sandboxes() -> Iterator[str]:
    """A sandbox service that takes the token of the environment."""
    with service.serving({"default": os.environ["ATC_SERVE_TOKEN"]}) as running:
        yield running.url


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster of one node."""
    with batch_kills.two_nodes(1) as made:
        yield made.address


@contextmanager
def model() -> Iterator[str]:
    """An endpoint."""
    with serving(answering) as server:
        yield server.url


@contextmanager
def ferries(folder: Path) -> Iterator[str]:
    """The tutorial's service, and the recording of it."""
    example = runpy.run_path(str(ROOT / "examples" / "probing.py"))
    with example["serving"]() as url:
        yield example["record"](url, folder / "ferries.har").name


ADDRESSES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "http://127.0.0.1:8321": lambda _: goods(),
    "https://host.example/mcp": mcp.shop_over_http,
    "http://127.0.0.1:8700": lambda _: sandboxes(),
    "0.0.0.0": lambda _: nullcontext("127.0.0.1"),
    "tools.example.org": lambda _: nullcontext(f"127.0.0.1:{os.environ['ATC_MCP_PORT']}"),
    "10.0.0.1:6379": lambda _: cluster(),
    "https://api.openai.com/v1": lambda _: model(),
    "ferries.har": ferries,
}
"""The addresses in snippets, and what answers in their place. Nothing else of a command is changed."""


def add_programs(folder: Path) -> Path:
    """A server ``server.py`` with a tool that reads, ``servers.json``, which names it, and ``uvx``, which starts it
    whatever it is told; the folder of that."""
    command = mcp.raw_server(folder, calls={"current_time": {"value": {"time": "12:00"}}})
    (folder / "server.py").write_text(f"import os\nos.execv({command[0]!r}, {command!r})\n")
    servers = {"mcpServers": {"clock": {"command": sys.executable, "args": [str(folder / "server.py")]}}}
    (folder / "servers.json").write_text(json.dumps(servers))
    (programs := folder / "programs").mkdir()
    (programs / "uvx").write_text(f"#!{sys.executable}\n{(folder / 'server.py').read_text()}")
    (programs / "uvx").chmod(0o755)
    return programs


# -- what stands ready before a block ----------------------------------------------------------------------------------


def settings_files(folder: Path) -> None:
    """Settings that may not come with a folder unasked."""
    (folder / "atc.toml").write_text('api_key = "sk-of-the-folder"\n')
    (folder / "FOLDER").mkdir()
    (folder / "FOLDER" / "atc.toml").write_text('base_url = "http://127.0.0.1:9/v1"\n')


def index_of_the_catalogue(folder: Path) -> None:
    """The index of another block of the page."""
    ToolIndex.build(many_tools(), Encoder(), folder / "tools-index")


def with_trainings() -> None:
    """The packages of trainings."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install './research[train]'")


def tools_used_together(folder: Path) -> None:
    """An index, and a file of the tools that are used together: those of each half."""
    index = ToolIndex.build(many_tools(), Encoder(), folder / "tools-index")
    half = len(index) // 2
    pairs = [pair for some in (index.ids[:half], index.ids[half:]) for pair in combinations(some, 2)]
    lines = [json.dumps({"tools": list(pair), "count": 3}) for pair in pairs]
    (folder / "used.jsonl").write_text("\n".join(lines))


def an_index_to_train_on(folder: Path) -> None:
    """The same index, where there is what trains on it."""
    with_trainings()
    tools_used_together(folder)


def a_model_and_chats(folder: Path) -> None:
    """A tiny model, documents of three tools, and a chat and pairs of a query with its tool."""
    with_trainings()
    model_in(folder / "MODEL")
    (folder / "tools").mkdir()
    for name in ("weather_now", "weather_week", "mail_send"):
        document = yaml.safe_dump({"name": name, "description": f"About {name.replace('_', ' ')}."})
        (folder / "tools" / f"{name}.yaml").write_text(document)
    call = {"function": {"name": "mail_send", "arguments": "{}"}}
    messages = [{"role": "user", "content": "mail"}, {"role": "assistant", "tool_calls": [call]}]
    (folder / "chats.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    (folder / "pairs.jsonl").write_text(json.dumps({"query": "write to Ann", "gold": ["mail_send"]}) + "\n")


def credentials(folder: Path) -> None:
    """A token of a client, and a certificate with its key."""
    (folder / "FILE").write_text("ann a-token-of-the-tests-0123456789\n")
    (folder / "FILE").chmod(0o600)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tools")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    (folder / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption()))


def a_client_with_a_server(folder: Path) -> None:
    """A client that has a server of its own."""
    (folder / ".cursor").mkdir()
    servers = {"mcpServers": {"clock": {"command": "uvx", "args": ["mcp-server-time"]}}}
    (folder / ".cursor" / "mcp.json").write_text(json.dumps(servers, indent=2))


def the_benchmarks(folder: Path) -> None:
    """The benchmarks of this checkout, whose results stay in the folder."""
    (folder / "benchmarks").mkdir()
    for each in (ROOT / "benchmarks").iterdir():
        if each.name not in ("results", "__pycache__"):
            (folder / "benchmarks" / each.name).symlink_to(each)


def _packed(path: Path, *lines: Any) -> None:
    """A compressed file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def data_of_paths(folder: Path) -> None:
    """The benchmarks, and a task of RestBench and of ToolFlow that is not sealed, in the form of their data."""
    the_benchmarks(folder)
    content = {"schema": {"type": "object"}, "examples": {"response": {"value": {"films": ["Alma"]}}}}
    answered = {"200": {"description": "", "content": {"application/json": content}}}
    films = openapi.document({"/films": {"get": {"operationId": "list_films", "responses": answered}}})
    place = {"method": "GET", "url": "https://films.example/films", "servers": [{"url": "https://films.example"}]}
    task = {"dataset": "tmdb", "query": "Which films are there?"}
    data = folder / "DIR" / "restbench"
    _packed(data / "tmdb_oas.json.gz", films)
    _packed(data / "spotify_oas.json.gz", films)
    _packed(data / "tasks.jsonl.gz", {**task, "id": "tmdb:1", "solution": ["GET /films"]})
    _packed(data / "endpoint_docs.jsonl.gz", {"dataset": "tmdb", "name": "films", "description": "Films.", **place})
    _packed(data / "toolflow_tasks.jsonl.gz", {**task, "qid": 3, "solution": ["films"], "api_list": ["films"]})


def data_of_catalogues(folder: Path) -> None:
    """Pools of tools, and queries for them, in the form of the data of retrieval."""
    data, tools = folder / "DIR" / "retrieval", [each for each in many_tools() if each.description]
    for source, name in (("toolbench", "corpus_toolbench"), ("metatool", "corpus_other")):
        told = ({"id": f"{source}/{t.name}", "name": t.name, "description": t.description} for t in tools)
        _packed(data / f"{name}.jsonl.gz", *({**each, "source": source} for each in told))
    _packed(data / "pools.json.gz", {"toolbench_g3": [f"toolbench/{each.name}" for each in tools]})
    queries = [
        {
            "id": f"{source}:{n}",
            "query": pair.query,
            "gold": [f"{source}/{pair.gold[0]}"],
            "source": source,
            "pool": source,
        }
        for source in ("toolbench", "metatool")
        for n, pair in enumerate(asked()[:9])
    ]
    _packed(data / "queries.jsonl.gz", *queries)


def a_decoder_and_catalogues(folder: Path) -> None:
    """The data of retrieval, and a tiny model under the name of a file."""
    with_trainings()
    data_of_catalogues(folder)
    model_in(folder / "smollm2-135m-instruct-q4_1.gguf")


def an_engine(_: Path) -> None:
    """A Docker engine with the image."""
    docker.needs_image()


def ray(_: Path) -> None:
    """The package of clusters."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")


def a_client_without_servers(folder: Path) -> None:
    """The configuration of Claude Code."""
    (folder / ".claude.json").write_text("{}")


BEFORE: dict[str, Callable[[Path], None]] = {
    "README.md-1": a_client_without_servers,
    "approval.md-0": settings_files,
    "batch.md-1": ray,
    "research/benchmarks.md-0": a_decoder_and_catalogues,
    "comparison.md-0": the_benchmarks,
    "service.md-0": an_engine,
    "index.md-0": a_client_without_servers,
    "code-mode.md-0": a_client_with_a_server,
    "code-mode.md-3": credentials,
    "code-mode.md-4": a_client_with_a_server,
    "research/training.md-1": tools_used_together,
    "research/training.md-2": an_index_to_train_on,
    "research/training.md-3": a_model_and_chats,
    "benchmarks/README.md-0": the_benchmarks,
    "benchmarks/README.md-3": data_of_paths,
}
"""What a block finds beside the files of all."""
