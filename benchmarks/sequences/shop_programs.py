"""Right programs for the tasks of the shops, which look up each thing that a task calls by its name.

The solutions in :mod:`benchmarks.environments.shops` have only the calls that are judged.
"""

from __future__ import annotations

from collections.abc import Mapping


def _rows(name: str, tool: str, **given: str) -> str:
    arguments = "".join(f"{key}={value}, " for key, value in given.items())
    return f"""\
{name}, cursor = [], None
while True:
    page = {tool}({arguments}cursor=cursor, limit=10)
    {name} += page["items"]
    cursor = page["next_cursor"]
    if cursor is None:
        break
"""


_PRODUCT = _rows("products", "list_products") + 'kite = [row for row in products if row["name"] == "Kite"][0]\n'
_BOOKS = _rows("books", "list_books") + 'book = [row for row in books if row["title"] == {title!r}][0]\n'
_PATIENTS = _rows("patients", "list_patients") + 'patient = [row for row in patients if row["name"] == {name!r}][0]\n'
_DOCTOR = 'doctor = [row for row in list_doctors() if row["name"] == {name!r}][0]\n'
_PARTS = _rows("parts", "list_parts") + 'part = [row for row in parts if {name!r} in row["name"].lower()][0]\n'
_OWNER = 'owner = [row for row in list_owners() if row["name"] == {name!r}][0]\n'

PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "shop": {
        "price": _PRODUCT + 'answer = get_product(product_id=kite["id"])["price_cents"]',
        "order": _PRODUCT
        + """\
customer = search_customers(q="Mia Lund")["items"][0]
order = create_order(customer_id=customer["id"], lines=[{"product_id": kite["id"], "quantity": 2}])
answer = order["id"]""",
    },
    "library": {
        "copies": _BOOKS.format(title="Emma") + 'answer = get_book(book_id=book["id"])["copies"]',
        "borrower": _BOOKS.format(title="Dune")
        + _rows("loans", "list_loans", book_id='book["id"]')
        + """\
loan = [row for row in loans if not row["returned"]][0]
answer = get_member(member_id=loan["member_id"])["name"]""",
        "lend": _BOOKS.format(title="Persuasion")
        + """\
member = search_members(q="Nora Quist")["items"][0]
answer = lend(book_id=book["id"], member_id=member["id"])["id"]""",
        "return": _BOOKS.format(title="Middlemarch")
        + 'member = search_members(q="Iris Holm")["items"][0]\n'
        + _rows("loans", "list_loans", member_id='member["id"]', book_id='book["id"]')
        + """\
loan = [row for row in loans if not row["returned"]][0]
answer = take_back(loan_id=loan["id"])["id"]""",
    },
    "clinic": {
        "specialty": _PATIENTS.format(name="Omar Haddad")
        + 'answer = get_doctor(doctor_id=patient["doctor_id"])["specialty"]',
        "repeats": _PATIENTS.format(name="Lena Vogt")
        + """\
found = prescriptions_of_patient(patient_id=patient["id"])
answer = [row for row in found if row["drug"] == "amoxicillin"][0]["repeats_left"]""",
        "cancel": _PATIENTS.format(name="Omar Haddad")
        + _DOCTOR.format(name="Ken Sato")
        + """\
found = list_appointments(patient_id=patient["id"], doctor_id=doctor["id"])["items"][0]
cancel_appointment(appointment_id=found["id"])
answer = found["id"]""",
        "book": _PATIENTS.format(name="Lena Vogt")
        + _DOCTOR.format(name="Priya Nair")
        + """\
booked = book_appointment(patient_id=patient["id"], doctor_id=doctor["id"], day="2026-04-02", hour=9)
answer = booked["id"]""",
    },
    "workshop": {
        "price": _PARTS.format(name="timing belt") + 'answer = get_part(sku=part["sku"])["price_cents"]',
        "plate": _OWNER.format(name="Greta Olsen") + 'answer = cars_of_owner(owner_id=owner["id"])[0]["plate"]',
        "assign": _OWNER.format(name="Karim Aziz")
        + """\
car = cars_of_owner(owner_id=owner["id"])[0]
"""
        + _rows("repairs", "list_repairs", plate='car["plate"]')
        + """\
repair = [row for row in repairs if not row["done"]][0]
mechanic = [row for row in list_mechanics() if row["name"] == "Tove Lund"][0]
answer = assign_mechanic(number=repair["number"], mechanic_id=mechanic["id"])["number"]""",
        "part": _PARTS.format(name="brake pad")
        + _rows("repairs", "list_repairs", plate='"KLM442"')
        + """\
repair = [row for row in repairs if not row["done"]][0]
answer = add_part(number=repair["number"], sku=part["sku"], quantity=2)["number"]""",
    },
}
"""By the service and the task."""
