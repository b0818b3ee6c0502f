"""Protocol documents: what is written can be read back, and a wrong file is named with its field."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from atc._host.files import resource_dir
from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.protocol import Example, Protocol, Provenance, Source, Status
from atc.tools.documents import SCHEMA_FILE, dump_protocols, load_protocols, protocol_schema
from atc.tools.tool import Toolset

PROTOCOL = Protocol(
    name="get_weather",
    description="The weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    returns={"type": "object", "properties": {"celsius": {"type": "number"}}},
    statuses=(Status(code=404, description="no such city"), Status(code="default")),
    effect=Effect.READ,
    examples=(Example(arguments={"city": "Oslo"}, response={"celsius": 3.5}),),
    source=Source(kind="openapi", location="weather.json", operation="GET /weather"),
    provenance=Provenance.IMPORTED,
)


def test_protocols_survive_being_written_and_read(tmp_path: Path) -> None:
    written = dump_protocols([PROTOCOL, Protocol(name="ping")], tmp_path / "new")
    assert [file.name for file in written] == ["get_weather.json", "ping.json"]
    assert load_protocols(tmp_path / "new").protocols == [PROTOCOL, Protocol(name="ping")]
    assert Toolset.from_protocols(written[0]).protocols == [PROTOCOL]


def test_yaml_lists_and_subfolders_are_read(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.yaml").write_text("- name: one\n  description: 2024-01-01\n- name: two\n  effect: read\n")
    (tmp_path / "a.json").write_text('{"name": "zero"}')
    (tmp_path / "x.schema.json").write_text("{}")
    (tmp_path / ".hidden.json").write_text("{}")
    tools = load_protocols(tmp_path)
    assert list(tools) == ["zero", "one", "two"]
    assert tools["one"].protocol.description == "2024-01-01"


def test_a_document_never_brings_code(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"name": "f", "source": {"kind": "function", "location": "os:system"}}')
    assert load_protocols(tmp_path)["f"].transport is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"name": "not a name"}', "name:"),
        ('{"name": "f", "parameters": {"type": "array"}}', "parameters:"),
        ('{"name": "f", "parameters": {"properties": {"x": {"type": "strange"}}}}', "parameters"),
        ('{"name": "f", "returns": {"$ref": "https://example.org/s.json"}}', "returns"),
        ('[{"name": "f"}, {"name": "g", "effect": "explode"}]', "[1]: effect:"),
        ('{"name": "f", "extra": 1}', "extra:"),
        ('["f"]', "[0] is a str"),
        ('{"openapi": "3.0.0"}', "from_openapi"),
        ('{"name": ', "not valid JSON"),
        ("name: !!python/object/apply:os.system [id]", "tag"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(content)
    with pytest.raises(ToolImportError) as caught:
        load_protocols(tmp_path)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)


def test_two_files_with_one_name_are_both_named(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('{"name": "same"}')
    with pytest.raises(ToolImportError, match=r"b\.json.*'same'.*a\.json"):
        load_protocols(tmp_path)


def test_an_empty_folder_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ToolImportError, match="no protocol document"):
        load_protocols(tmp_path)
    with pytest.raises(ToolImportError, match="neither a folder nor a file"):
        load_protocols(tmp_path / "missing")


def test_the_published_schema_is_up_to_date() -> None:
    published = json.loads((resource_dir("protocols") / SCHEMA_FILE).read_text())
    assert published == protocol_schema(), "run: python -m atc.tools.documents"


def test_the_published_schema_accepts_what_is_dumped_and_nothing_else(tmp_path: Path) -> None:
    validator = jsonschema_rs.validator_for(protocol_schema())
    document = json.loads(dump_protocols([PROTOCOL], tmp_path)[0].read_text())
    assert validator.is_valid(document)
    assert validator.is_valid([document])
    assert not validator.is_valid({**document, "extra": 1})
    assert not validator.is_valid({"description": "no name"})
