"""The type checker ``ty`` as a server: started once for a set of stubs, asked for every program, in milliseconds.

It speaks the Language Server Protocol over its standard streams. Programs are handed over as text; nothing is imported.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MAX_TRIES = 5
_HEADER = b"content-length:"
_ENVIRONMENT = {"NO_COLOR": "1", "TY_MAX_PARALLELISM": "1"}


class TypeServer:
    """One server process, and one thread that talks with it. It starts and warms up beside whatever goes on.

    Args:
        ty: the program.
        folder: the project: stubs and ``ty.toml``.
        warm_up: a first program, so that later ones find everything read.
    """

    def __init__(self, ty: str, folder: Path, warm_up: str) -> None:
        self._folder = folder
        self._number = 0
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="atc-ty")
        self._worker.submit(self._start, ty, warm_up)

    async def diagnose(self, text: str) -> list[dict[str, Any]]:
        """What the checker says of a program: the protocol's diagnostics.

        Raises:
            OSError: the server has ended, or never started.
            ValueError: what it sent is no message.
        """
        if self._closed:
            raise OSError("the type checker has ended")
        return await asyncio.wrap_future(self._worker.submit(self._diagnose, text))

    def close(self) -> None:
        """End the process. Safe to call twice."""
        if not self._closed:
            self._closed = True
            if self._process is not None:
                self._process.kill()  # what its thread still waits for ends with it
            self._worker.submit(self._end)
            self._worker.shutdown(wait=False)

    # -- in its thread -------------------------------------------------------------------------------------------------

    def _start(self, ty: str, warm_up: str) -> None:
        self._process = subprocess.Popen(
            [ty, "server"],
            cwd=self._folder,
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        root = self._folder.as_uri()
        self._request(
            "initialize",
            {
                "processId": None,
                "rootUri": root,
                "workspaceFolders": [{"uri": root, "name": "program"}],
                "capabilities": {"textDocument": {"diagnostic": {}}},
            },
        )
        self._send({"method": "initialized", "params": {}})
        self._diagnose(warm_up)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _diagnose(self, text: str) -> list[dict[str, Any]]:
        uri = (self._folder / f"program_{self._number}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        for _ in range(MAX_TRIES):
            answer = self._answer(self._request("textDocument/diagnostic", {"textDocument": {"uri": uri}}))
            if isinstance(answer.get("result"), dict):
                self._send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
                items = answer["result"].get("items", [])
                return items if isinstance(items, list) else []
        raise OSError(f"the type checker would not check: {answer.get('error')}")  # asked again it cancelled again

    def _answer(self, wanted: int) -> dict[str, Any]:
        """The answer to a request; what comes in between is passed over."""
        while True:
            message = self._receive()
            if "method" in message and "id" in message:  # a request of the server: answer it with null
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == wanted:
                return message

    def _request(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._number

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise OSError("the type checker did not start")
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        if self._process is None or self._process.stdout is None:
            raise OSError("the type checker did not start")
        length = 0
        while (line := self._process.stdout.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(_HEADER):
                length = int(line[len(_HEADER) :])
        body = self._process.stdout.read(length) if length else b""
        if not body:
            raise OSError("the type checker has ended")
        message = json.loads(body)
        return message if isinstance(message, dict) else {}
