"""A web application starts a task, shows the call that waits for approval, and continues when its user has decided.

python examples/approval_in_a_web_handler.py
"""

import asyncio
import socket
from typing import Any, TypedDict

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from atc import Agent, Result, UsageError, tool


class Room(TypedDict):
    room: str
    seats: int


class Reservation(TypedDict):
    number: str


@tool(effect="read")
def free_rooms(seats: int) -> list[Room]:
    """Find free rooms with at least so many seats, the smallest first."""
    rooms: list[Room] = [{"room": "101", "seats": 4}, {"room": "204", "seats": 10}, {"room": "310", "seats": 40}]
    return [room for room in rooms if room["seats"] >= seats]


@tool(effect="write")
def reserve(room: str, people: int) -> Reservation:
    """Reserve a room."""
    return {"number": f"R-{room}-{people}"}


AGENT = Agent([free_rooms, reserve], approve="park", sentence=False)
OWNERS: dict[str, str] = {}  # run → user; keep it in your database


def user_of(request: Request) -> str:
    return request.headers["X-User"]  # your sign-in


def shown(result: Result[Any]) -> JSONResponse:
    pending = [
        {"call": call.index, "tool": call.tool, "arguments": call.arguments, "warnings": call.warnings}
        for call in result.pending
    ]
    fault = result.fault and result.fault.message
    return JSONResponse(
        {"run": result.run_id, "status": result.status, "value": result.value, "fault": fault, "pending": pending}
    )


async def begin(request: Request) -> JSONResponse:
    result = await AGENT.arun((await request.json())["task"])
    OWNERS[result.run_id] = user_of(request)
    return shown(result)


async def decide(request: Request) -> JSONResponse:
    run, user, decided = request.path_params["run"], user_of(request), await request.json()
    if OWNERS.get(run) != user:
        raise HTTPException(404)
    deny = decided["allow"] is not True
    try:
        await asyncio.to_thread(AGENT.approve, run, calls=decided["calls"], deny=deny, by=user)
    except UsageError as error:  # it was decided before, or too late
        return JSONResponse({"error": str(error)}, 409)
    return shown(await AGENT.aresume(run))


app = Starlette(
    routes=[Route("/tasks", begin, methods=["POST"]), Route("/runs/{run}/decision", decide, methods=["POST"])],
)


async def play_the_user(address: str) -> None:
    """What a page in a browser does: it starts a task, shows the calls that wait, and sends the decision."""
    headers = {"X-User": "ann"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=600, trust_env=False) as browser:
        task = "Reserve the smallest free room for 8 people. Answer with the number of the reservation."
        seen = (await browser.post("/tasks", json={"task": task})).json()
        while seen["status"] == "waiting":
            print("waits:", *((call["tool"], call["arguments"]) for call in seen["pending"]))
            decision = {"calls": [call["call"] for call in seen["pending"]], "allow": True}
            seen = (await browser.post(f"/runs/{seen['run']}/decision", json=decision)).json()
    print(seen["status"], seen["value"] or seen["fault"])


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:  # a free port of this machine
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[free]))
        try:
            await play_the_user(f"http://127.0.0.1:{free.getsockname()[1]}")
        finally:
            server.should_exit = True
            await serving
            await AGENT.aclose()


if __name__ == "__main__":
    asyncio.run(main())
