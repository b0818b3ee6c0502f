"""Fourteen tasks over four small services whose tables refer to each other.

A task is solved where the answer is right and the tables are as its own solution leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.environments import Environment, Episode, Gold, Task
from benchmarks.environments.atlas_tasks import check
from benchmarks.environments.service import Service
from benchmarks.environments.services import Clinic, Library, Shop, Workshop

Calls = Sequence[tuple[str, dict[str, Any]]]
TASKS: Mapping[type[Service], Mapping[str, tuple[str, Calls, Any]]] = {
    Shop: {
        "price": (
            "How much is the Kite? Answer with the price in cents.",
            [("list_products", {}), ("get_product", {"product_id": 6})],
            899,
        ),
        "order": (
            "Order 2 Kites for Mia Lund. Answer with the number of the order.",
            [("create_order", {"customer_id": 3, "lines": [{"product_id": 6, "quantity": 2}]})],
            13,
        ),
    },
    Library: {
        "copies": (
            "How many copies of the book Emma does the library own? Answer with the number.",
            [("get_book", {"book_id": 207})],
            6,
        ),
        "borrower": (
            "Which member has borrowed Dune and has not brought it back yet? Answer with the member's name.",
            [("list_loans", {"book_id": 202}), ("get_member", {"member_id": 37})],
            "Greta Ljung",
        ),
        "lend": (
            "Lend Persuasion to Nora Quist. Answer with the number of the loan.",
            [("lend", {"book_id": 209, "member_id": 33})],
            709,
        ),
        "return": (
            "Iris Holm brings back Middlemarch: record it. Answer with the number of the loan.",
            [("take_back", {"loan_id": 707})],
            707,
        ),
    },
    Clinic: {
        "specialty": (
            "What is the specialty of the doctor to whom the patient Omar Haddad belongs? Answer with the specialty.",
            [("get_patient", {"patient_id": "P16"}), ("get_doctor", {"doctor_id": "D1"})],
            "cardiology",
        ),
        "repeats": (
            "How many repeats are left on Lena Vogt's prescription of amoxicillin? Answer with the number.",
            [("prescriptions_of_patient", {"patient_id": "P15"})],
            3,
        ),
        "cancel": (
            "Cancel the appointment that Omar Haddad has with Ken Sato. Answer with the number of the appointment.",
            [("cancel_appointment", {"appointment_id": "A505"})],
            "A505",
        ),
        "book": (
            "Book an appointment for Lena Vogt with Priya Nair on 2 April 2026 at 9 o'clock. "
            "Answer with the number of the appointment.",
            [("book_appointment", {"patient_id": "P15", "doctor_id": "D2", "day": "2026-04-02", "hour": 9})],
            "A506",
        ),
    },
    Workshop: {
        "price": (
            "What does a timing belt cost? Answer with the price in cents.",
            [("get_part", {"sku": "TB-52"})],
            8430,
        ),
        "plate": (
            "What is the plate of Greta Olsen's car? Answer with the plate.",
            [("cars_of_owner", {"owner_id": 62})],
            "STU905",
        ),
        "assign": (
            "Give the repair of Karim Aziz's car that is not done yet to Tove Lund. "
            "Answer with the number of the repair.",
            [("assign_mechanic", {"number": 4006, "mechanic_id": 5})],
            4006,
        ),
        "part": (
            "Put two brake pads onto the repair of the car KLM442 that is not done yet. "
            "Answer with the number of the repair.",
            [("add_part", {"number": 4005, "sku": "BP-30", "quantity": 2})],
            4005,
        ),
    },
}  # fmt: skip
"""For each service its tasks: what a user asks, the calls that matter of a solution, and the answer."""


class ServiceEpisode(Episode):
    """A try at a service's task; see :attr:`forbidden_writes`."""

    @property
    def forbidden_writes(self) -> int:
        """Writes that the solution does not make: to another row, with another value, or once too often."""
        return sum(max(0, times - self._gold[key]) for key, times in self._written.items())


class ServiceEnvironment(Environment):
    """The tasks of one service.

    Args:
        service: its class.
    """

    def __init__(self, service: type[Service]) -> None:
        self.name = service.__name__.lower()
        self._service, self._tasks = service, TASKS[service]
        self._names = service.tool_names()

    def tasks(self) -> list[Task]:
        return [Task(id, text, tuple(self._names.values())) for id, (text, _, _) in self._tasks.items()]

    def open(self, task: Task) -> Episode:
        service, gold = self._service(), self.gold(task)
        expected = self._left(task)

        def judge(value: Any) -> bool:
            return check(value, gold.answer) and service.state() == expected

        return ServiceEpisode(service.toolset(), judge, gold.calls)

    def gold(self, task: Task) -> Gold:
        _, calls, answer = self._tasks[task.id]
        return Gold(tuple((self._names[method], arguments) for method, arguments in calls), answer)

    def _left(self, task: Task) -> dict[str, Any]:
        """The tables as the solution leaves them."""
        service = self._service()
        for method, arguments in self._tasks[task.id][1]:
            service.answer(method, arguments)
        return service.state()


def environments() -> list[Environment]:
    """The four services."""
    return [ServiceEnvironment(each) for each in TASKS]
