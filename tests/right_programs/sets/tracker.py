"""An issue tracker over HTTP: lists without a schema, a closed request, fields that only some items have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc import ToolError
from tests.right_programs.sets.cinema import INTEGER, OBJECT, TEXT, _get, _in

KIND = "openapi"
TASKS = (
    "How many open issues has each project? Answer with a dict from project key to number.",
    "Who is assigned the most open issues? Answer with the name.",
    "Close every issue with the label 'wontfix'. Answer with their numbers, sorted.",
    "Which issue has the most comments? Answer with its title.",
    "Comment 'Please retest' on each open issue of project WEB that has the label 'bug'. Answer with how many.",
    "What is the mean number of days from creation to closing of the closed issues? One decimal.",
    "List the titles of the open issues without an assignee, sorted.",
    "Which labels are used in more than one project? Sorted list.",
    "Create an issue 'Update docs' in project API with the labels of issue 3. Answer with its number.",
    "Which users never commented? Names, sorted.",
    "What is the oldest open issue? Answer with its number.",
    "How many comments contain the word 'fixed', in any case?",
    "Give a dict from milestone to the share of closed issues in percent, as whole numbers. Issues without one: 'none'.",
    "Assign the open issues without assignee to the user with the fewest open issues (ties: by name). Answer with the name.",
    "Which issues mention another issue by '#' and a number in their body? Answer with a dict from number to that number.",
    "Who commented on the most different issues? Answer with the name.",
    "Is there a closed issue without a closing date? Answer true or false.",
    "List the e-mail addresses of everybody who is assigned to an open bug, sorted.",
    "What are the three most recently created issues? Answer with their numbers, the newest first.",
    "Give each project's name with its open titles joined by '; ', as a dict.",
)
ISSUE = {"type": "object", "properties": {"number": INTEGER, "title": TEXT, "state": {"enum": ["open", "closed"]}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tracker", "version": "2"},
    "paths": {
        "/projects": _get("All projects: key, name.", "list_projects", {"type": "array", "items": OBJECT}),
        "/users": _get(
            "All users.", "list_users", {"type": "array", "items": {"properties": {"login": TEXT, "name": TEXT}}}
        ),
        "/issues": _get(
            "Issues, 5 a page, oldest first. Besides number, title and state an issue has project, labels (names), created"
            " (a date), assignee (a login, or null), body, comments (how many), milestone and closed (a date), if any.",
            "list_issues",
            {"type": "array", "items": ISSUE},
            _in("query", "project"),
            {"name": "state", "in": "query", "schema": {"enum": ["open", "closed"]}},
            {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1}},
        ),
        "/issues/{number}": _get(
            "One issue.", "get_issue", {**ISSUE, "required": ["number"]}, _in("path", "number", "integer")
        )
        | {
            "patch": {
                "operationId": "update_issue",
                "summary": "Change the state or the assignee of an issue.",
                "parameters": [_in("path", "number", "integer")],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "state": {"enum": ["open", "closed"]},
                                    "assignee": {"type": ["string", "null"]},
                                },
                                "additionalProperties": False,
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": ISSUE}}}},
            }
        },
        "/issues/{number}/comments": _get(
            "Comments on an issue, each with author (a login) and text.",
            "list_comments",
            {"type": "array"},
            _in("path", "number", "integer"),
        )
        | {
            "post": {
                "operationId": "add_comment",
                "summary": "Comment on an issue.",
                "parameters": [_in("path", "number", "integer")],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"type": "object", "required": ["text"], "properties": {"text": TEXT}}
                        }
                    },
                },
                "responses": {"201": {"description": "Created", "content": {"application/json": {"schema": OBJECT}}}},
            }
        },
        "/projects/{project}/issues": {
            "post": {
                "operationId": "create_issue",
                "summary": "Create an issue.",
                "parameters": [_in("path", "project")],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["title"],
                                "properties": {"title": TEXT, "labels": {"type": "array", "items": TEXT}, "body": TEXT},
                            }
                        }
                    },
                },
                "responses": {"201": {"description": "Created", "content": {"application/json": {"schema": ISSUE}}}},
            }
        },
    },
}

USERS = [
    {"login": "mo", "name": "Mo Ito", "email": "mo@dev.example"},
    {"login": "zed", "name": "Zed Kay", "email": "zed@dev.example"},
    {"login": "ann", "name": "Ann Poe", "email": "ann@dev.example"},
]
ISSUES: list[dict[str, Any]] = [
    {"number": 1, "title": "Login fails", "state": "open", "project": "WEB", "labels": ["bug"], "created": "2026-01-05",
     "assignee": "mo", "body": "As in #3.", "milestone": "1.0"},
    {"number": 2, "title": "Dark mode", "state": "closed", "project": "WEB", "labels": ["feature"], "created": "2026-01-07",
     "assignee": "zed", "body": "", "milestone": "1.0", "closed": "2026-01-20"},
    {"number": 3, "title": "Slow query", "state": "open", "project": "API", "labels": ["bug", "speed"], "created": "2026-01-09",
     "assignee": None, "body": "Measured twice."},
    {"number": 4, "title": "Old browser", "state": "open", "project": "WEB", "labels": ["wontfix"], "created": "2026-02-01",
     "assignee": None, "body": ""},
    {"number": 5, "title": "Rate limit", "state": "closed", "project": "API", "labels": ["feature"], "created": "2026-02-11",
     "assignee": "mo", "body": "Follows #2", "milestone": "1.1", "closed": "2026-03-01"},
    {"number": 6, "title": "Broken image", "state": "open", "project": "WEB", "labels": ["bug"], "created": "2026-02-20",
     "assignee": "mo", "body": "", "milestone": "1.1"},
    {"number": 7, "title": "Typo", "state": "open", "project": "API", "labels": ["wontfix", "docs"], "created": "2026-03-03",
     "assignee": "zed", "body": ""},
]  # fmt: skip
COMMENTS = {
    1: [("zed", "Is this fixed?"), ("mo", "Not yet."), ("zed", "Any news?")],
    2: [("mo", "Fixed in main")],
    5: [("mo", "Done")],
}


def functions() -> list[Callable[..., Any]]:
    """What the service does, with issues of its own."""
    issues = {i["number"]: dict(i) for i in ISSUES}
    comments = {n: [{"author": a, "text": t} for a, t in COMMENTS.get(n, [])] for n in issues}

    def shown(number: int) -> dict[str, Any]:
        if number not in issues:
            raise ToolError("no such issue", status=404)
        return {**issues[number], "comments": len(comments[number])}

    def list_projects() -> list[dict[str, str]]:
        return [{"key": "WEB", "name": "Web site"}, {"key": "API", "name": "Interface"}]

    def list_users() -> list[dict[str, str]]:
        return USERS

    def list_issues(project: str | None = None, state: str | None = None, page: int = 1) -> list[dict[str, Any]]:
        found = [shown(n) for n, i in issues.items() if project in (None, i["project"]) and state in (None, i["state"])]
        return found[(page - 1) * 5 : page * 5]

    def get_issue(number: int) -> dict[str, Any]:
        return shown(number)

    def update_issue(number: int, **changes: Any) -> dict[str, Any]:
        shown(number)
        issues[number].update(changes)
        return shown(number)

    def list_comments(number: int) -> list[dict[str, str]]:
        shown(number)
        return comments[number]

    def add_comment(number: int, text: str) -> dict[str, Any]:
        shown(number)
        comments[number].append({"author": "me", "text": text})
        return {"comments": len(comments[number])}

    def create_issue(project: str, title: str, labels: list[str] | None = None, body: str = "") -> dict[str, Any]:
        number = max(issues) + 1
        made = {"number": number, "title": title, "state": "open", "project": project, "labels": labels or []}
        issues[number] = {**made, "created": "2026-04-01", "assignee": None, "body": body}
        comments[number] = []
        return shown(number)

    return [
        list_projects,
        list_users,
        list_issues,
        get_issue,
        update_issue,
        list_comments,
        add_comment,
        create_issue,
    ]
