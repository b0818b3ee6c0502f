"""A web handler starts a task, shows the call that waits for a yes, and goes on when its user has decided.

python examples/approval_in_a_web_handler.py
"""

import asyncio
import secrets
import socket
from typing import Any, TypedDict

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from atc import Agent, ApprovalRequest, Result, tool

WAIT_S = 600  # a question that nobody decides is a no after ten minutes


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


class Job:
    """One task of one user, and the question that waits for this user."""

    def __init__(self, task: str) -> None:
        self.question: dict[str, Any] | None = None
        self.asked = 0
        self.work = asyncio.create_task(self.run(task))

    async def run(self, task: str) -> Result:
        async with Agent([free_rooms, reserve], approve=self.approve, sentence=False) as agent:
            return await agent.arun(task)

    async def approve(self, request: ApprovalRequest) -> bool:
        """ATC awaits this before each call that is not a read. Only ``True`` is a yes."""
        self.asked += 1
        self.question = {"number": self.asked, "tool": request.tool, "arguments": request.arguments}
        self.question["warnings"] = request.warnings
        self.decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(self.decision, WAIT_S)
        except TimeoutError:
            return False
        finally:
            self.question = None


JOBS: dict[str, Job] = {}


def job_of(request: Request) -> Job:
    if (job := JOBS.get(request.path_params["job"])) is None:
        raise HTTPException(404)
    return job


async def begin(request: Request) -> JSONResponse:
    name = secrets.token_urlsafe()  # nobody can guess it
    JOBS[name] = Job((await request.json())["task"])
    return JSONResponse({"job": name}, 202)


async def look(request: Request) -> JSONResponse:
    job = job_of(request)
    if job.question is not None:
        return JSONResponse({"status": "waiting", "question": job.question})
    if not job.work.done():
        return JSONResponse({"status": "working"})
    result = job.work.result()
    return JSONResponse(
        {"status": result.status, "value": result.value, "fault": result.fault and result.fault.message}
    )


async def decide(request: Request) -> JSONResponse:
    job, decided = job_of(request), await request.json()
    if job.question is None or job.question["number"] != decided["number"] or job.decision.done():
        return JSONResponse({"error": "this question does not wait any more"}, 409)
    job.decision.set_result(decided["allow"] is True)
    return JSONResponse({"status": "working"})


app = Starlette(
    routes=[
        Route("/jobs", begin, methods=["POST"]),
        Route("/jobs/{job}", look),
        Route("/jobs/{job}/decision", decide, methods=["POST"]),
    ]
)


async def play_the_user(address: str) -> None:
    """What a page in a browser does: it starts a task, looks every half second, shows a question, sends a decision."""
    async with httpx.AsyncClient(base_url=address, trust_env=False) as browser:
        task = "Reserve the smallest free room for 8 people. Answer with the number of the reservation."
        job = (await browser.post("/jobs", json={"task": task})).json()["job"]
        while (seen := (await browser.get(f"/jobs/{job}")).json())["status"] in ("working", "waiting"):
            if seen["status"] == "waiting":
                question = seen["question"]
                print("allow", question["tool"], question["arguments"], *question["warnings"])
                decision = {"number": question["number"], "allow": True}
                print("yes:", (await browser.post(f"/jobs/{job}/decision", json=decision)).status_code)
            await asyncio.sleep(0.5)
    print(seen["status"], seen["value"] or seen["fault"])


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:  # a free port of this machine
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[door]))
        try:
            await play_the_user(f"http://127.0.0.1:{door.getsockname()[1]}")
        finally:
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main())
