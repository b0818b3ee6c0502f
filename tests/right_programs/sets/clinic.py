"""A clinic: plain functions with TypedDicts, enums and dates as text; a function without annotations of its result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

from atc import ToolError, tool

KIND = "functions"
TASKS = (
    "How many free slots does Dr. Roth have on 2026-09-14?",
    "Which doctor has the most free slots in the week from 2026-09-14 to 2026-09-18? Answer with the name.",
    "Book the earliest free slot on 2026-09-15 with any eye doctor for patient P-3. Answer with doctor and time as a list.",
    "List the names of the patients who are older than 65 on 2026-09-14, sorted.",
    "Which patients have an allergy that occurs in the ingredients of 'Ambrol'? Answer with their names, sorted.",
    "What is the mean age of all patients on 2026-09-14 in whole years (age rounded down), one decimal?",
    "Cancel all appointments of patient P-1. Answer with the number cancelled.",
    "Which ingredients do all drugs have in common? Sorted list.",
    "For each specialty, the names of its doctors, sorted. Answer with a dict.",
    "Which day of the week has the most appointments? Answer with the English name.",
    "Is any patient booked twice on one day? Answer with their ids, sorted.",
    "What does the longest gap between two free slots of Dr. Roth on 2026-09-14 last, in minutes?",
    "Move patient P-2 from the first appointment to the last free slot of the same doctor on 2026-09-16. Answer with the time.",
    "Which patients have never had an appointment? Names, sorted.",
    "Give the blood pressure trend of patient P-1: last systolic minus first systolic.",
    "Which patient has the highest mean systolic blood pressure? Skip patients without readings. Answer with the id.",
    "How many readings of all patients have a note?",
    "Which drug has the fewest ingredients? Answer with its name.",
    "For patient P-2, list the drugs that contain none of the patient's allergens, sorted.",
    "Give a dict from doctor to the share of slots on 2026-09-14 that are free, 2 decimals. A day has 8 slots.",
)


class Specialty(StrEnum):
    EYES = "eyes"
    HEART = "heart"


class Patient(TypedDict):
    patient_id: str
    name: str
    born: str
    allergies: list[str]


class Doctor(TypedDict):
    name: str
    specialty: Specialty


class Appointment(TypedDict):
    patient_id: str
    doctor: str
    at: datetime
    reason: NotRequired[str]


class Reading(TypedDict):
    taken: date
    systolic: int
    diastolic: int
    note: NotRequired[str]


DOCTORS: list[Doctor] = [
    {"name": "Dr. Roth", "specialty": Specialty.EYES},
    {"name": "Dr. Amir", "specialty": Specialty.HEART},
    {"name": "Dr. Lund", "specialty": Specialty.EYES},
]
PATIENTS: list[Patient] = [
    {"patient_id": "P-1", "name": "Otto Berg", "born": "1950-02-11", "allergies": ["pollen", "lactose"]},
    {"patient_id": "P-2", "name": "Maja Lind", "born": "1988-09-14", "allergies": ["nickel"]},
    {"patient_id": "P-3", "name": "Ali Demir", "born": "1961-09-15", "allergies": []},
    {"patient_id": "P-4", "name": "Ruth Kern", "born": "1939-12-01", "allergies": ["ethanol", "lactose"]},
]
DRUGS = {
    "Ambrol": ["ambroxol", "lactose", "water"],
    "Calmix": ["ethanol", "valerian", "water"],
    "Dolo": ["ibuprofen", "water"],
}
READINGS: dict[str, list[Reading]] = {
    "P-1": [
        {"taken": date(2026, 1, 3), "systolic": 150, "diastolic": 95},
        {"taken": date(2026, 5, 3), "systolic": 141, "diastolic": 90, "note": "after a walk"},
        {"taken": date(2026, 8, 30), "systolic": 138, "diastolic": 86},
    ],
    "P-4": [{"taken": date(2026, 7, 7), "systolic": 145, "diastolic": 80, "note": "at home"}],
}


def _slot(day: str, number: int) -> str:
    return f"{day}T{8 + number:02d}:30"


def functions() -> list[Callable[..., Any]]:
    """The tools, with appointments of their own."""
    booked: list[Appointment] = [
        {"patient_id": "P-1", "doctor": "Dr. Roth", "at": datetime(2026, 9, 14, 10, 30), "reason": "glasses"},
        {"patient_id": "P-1", "doctor": "Dr. Amir", "at": datetime(2026, 9, 14, 12, 30)},
        {"patient_id": "P-2", "doctor": "Dr. Lund", "at": datetime(2026, 9, 15, 8, 30)},
        {"patient_id": "P-2", "doctor": "Dr. Lund", "at": datetime(2026, 9, 21, 9, 30), "reason": "control"},
    ]

    def taken(doctor: str, slot: str) -> bool:
        return any(a["doctor"] == doctor and a["at"] == datetime.fromisoformat(slot) for a in booked)

    @tool(effect="read")
    def doctors(specialty: Specialty | None = None) -> list[Doctor]:
        """The doctors of the clinic."""
        return [d for d in DOCTORS if specialty in (None, d["specialty"])]

    @tool(effect="read")
    def patients() -> list[Patient]:
        """All patients. ``born`` is a date such as 1950-02-11."""
        return PATIENTS

    @tool(effect="read")
    def free_slots(doctor: str, day: date) -> list[str]:
        """The free slots of a doctor on a day, such as 2026-01-31T08:30. A slot takes an hour."""
        if doctor not in {d["name"] for d in DOCTORS}:
            raise ToolError(f"no doctor {doctor}", status="not_found")
        return [s for n in range(8) if not taken(doctor, s := _slot(day.isoformat(), n))]

    @tool(effect="read")
    def appointments(patient_id: str | None = None) -> list[Appointment]:
        """Appointments, the earliest first."""
        return sorted((a for a in booked if patient_id in (None, a["patient_id"])), key=lambda a: a["at"])

    @tool(effect="read")
    def drug_info(name: Literal["Ambrol", "Calmix", "Dolo"]):  # type: ignore[no-untyped-def]
        """What a drug is made of."""
        return {"name": name, "ingredients": DRUGS[name]}

    @tool(effect="read")
    def blood_pressure(patient_id: str) -> list[Reading]:
        """The readings of a patient, the oldest first; empty without any."""
        return READINGS.get(patient_id, [])

    @tool(effect="write")
    def book(patient_id: str, doctor: str, slot: datetime) -> Appointment:
        """Book a free slot of a doctor."""
        if taken(doctor, slot.isoformat()):
            raise ToolError("the slot is taken", status="conflict")
        booked.append(made := Appointment(patient_id=patient_id, doctor=doctor, at=slot))
        return made

    @tool(effect="write")
    def cancel(patient_id: str, slot: datetime) -> bool:
        """Cancel the appointment that a patient has at that time. Returns whether there was one."""
        left = [a for a in booked if (a["patient_id"], a["at"]) != (patient_id, slot)]
        found = len(left) < len(booked)
        booked[:] = left
        return found

    return [doctors, patients, free_slots, appointments, drug_info, blood_pressure, book, cancel]
