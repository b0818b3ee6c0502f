"""API-Bank's services, written anew over its databases: accounts, calendars, a hospital, a smart home, look-ups.

A service is told its databases and today's date; the numbers that it gives out come from ``issue``. Everything it is
asked for has been brought to its documented type before; what cannot be done is a :class:`ToolError`.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import bm25s

from atc.errors import ToolError
from benchmarks.environments.api_bank_words import alike, language, measured, plain
from benchmarks.environments.base import calculate

Arguments = dict[str, Any]
Row = dict[str, Any]
Function = Callable[..., Any]

CALENDARS = ("Agenda", "Meeting", "Reminder", "Alarm")
"""The databases whose rows belong to a user."""
FIXED_TABLES = frozenset(
    {"History", "ImageCaptioning", "QuestionAnswering", "SearchEngine", "SpeechRecognition", "Stock", "Symptom", "Wiki"}
)
"""The databases that no service changes; some are large."""
_OWN_TABLES = ("BankAccounts", "Codes", "Played", "Sent")  # what the services keep beside the given ones


class Services:
    """All services over one copy of the databases.

    Args:
        tables: the databases as the data has them.
        today: the date, ``YYYY-MM-DD``.
        recorded: answers of the services that are not built here (a dictionary, a translator), by tool.
        issue: makes a number or token for a call: the tool, its arguments.
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        today: str,
        recorded: Mapping[str, list[tuple[Arguments, Any]]],
        issue: Callable[[str, Arguments], Any],
    ) -> None:
        changing = copy.deepcopy({name: table for name, table in tables.items() if name not in FIXED_TABLES})
        self.tables: dict[str, Any] = {**tables, **changing, **{table: {} for table in _OWN_TABLES}}
        self._today, self._recorded, self._issue = today, recorded, issue

    def functions(self) -> dict[str, Function]:
        """What each tool does, by the name that the data has for it."""
        made: dict[str, Function] = {
            name: getattr(self, f"_{re.sub('(?<!^)(?=[A-Z])', '_', name).lower()}")
            for name in (
                "AppointmentRegistration", "ModifyRegistration", "CancelRegistration", "QueryRegistration", "BookHotel",
                "GetUserToken", "RegisterUser", "DeleteAccount", "ModifyPassword", "ForgotPassword",
                "OpenBankAccount", "QueryBalance", "QueryStock", "RecordHealthData", "QueryHealthData", "AddScene",
                "ModifyScene", "DeleteScene", "TimedSwitch", "CancelTimedSwitch", "QueryHistoryToday", "SearchEngine",
                "ImageCaption", "SendEmail", "PlayMusic", "Calculator", "Translate", "ModifyAlarm",
            )
        }  # fmt: skip
        for table in CALENDARS:
            made[f"Add{table}"] = functools.partial(self._add, table)
            made[f"Delete{table}"] = functools.partial(self._delete, table)
            made[f"Query{table}"] = functools.partial(self._query, table)
            made.setdefault(f"Modify{table}", functools.partial(self._modify, table))
        made["Dictionary"] = lambda keyword: self._known("Dictionary", {"keyword": plain(keyword)})
        made["CheckToken"] = self._user
        made["GetToday"] = lambda: self._today
        made["Wiki"] = lambda keyword: self._at("Wiki", keyword, "article on")
        made["QueryScene"] = lambda name: self._at("Scenes", name, "scene")
        made["SpeechRecognition"] = lambda url: self._at("SpeechRecognition", url, "audio at")
        made["SymptomSearch"] = lambda symptom: self._diseases(symptom, "description")
        made["EmergencyKnowledge"] = lambda symptom: self._diseases(symptom, "aid")
        made["DocumentQA"] = self._answered
        return made

    # Accounts and the bank ------------------------------------------------------------------------------------------

    def _user(self, token: str) -> str:
        for name, account in self.tables["Account"].items():
            if account["token"] == token:
                return str(name)
        raise ToolError("the token is invalid: no user has it", status=401)

    def _account(self, username: str) -> Row:
        if username not in self.tables["Account"]:
            raise ToolError(f"there is no user {username!r}", status=404)
        account: Row = self.tables["Account"][username]
        return account

    def _get_user_token(self, username: str, password: str) -> Row:
        account = self._account(username)
        if account["password"] != password:
            raise ToolError("the password is incorrect", status=401)
        return {"token": account["token"]}

    def _register_user(self, username: str, password: str, email: str) -> Row:
        if username in self.tables["Account"]:
            raise ToolError(f"the username {username!r} is taken", status=409)
        given = {"username": username, "password": password, "email": email}
        issued = self._issue("RegisterUser", given)
        token = issued["token"] if isinstance(issued, dict) else issued
        self.tables["Account"][username] = {"password": password, "token": token, "email": email}
        return {"token": token}

    def _delete_account(self, token: str) -> Row:
        del self.tables["Account"][self._user(token)]
        return {"status": "success"}

    def _modify_password(self, token: str, old_password: str, new_password: str) -> Row:
        account = self._account(self._user(token))
        if account["password"] != old_password:
            raise ToolError("the old password is incorrect", status=401)
        account["password"] = new_password
        return {"status": "success"}

    def _forgot_password(
        self, status: str, username: str = "", email: str = "", verification_code: int = 0, new_password: str = ""
    ) -> Any:
        if status == "Forgot Password":
            if self._account(username)["email"] != email:
                raise ToolError("the email is not that of the user", status=401)
            code = int(self._issue("ForgotPassword", {"status": status, "username": username, "email": email}))
            self.tables["Codes"][str(code)] = username
            return code
        if status != "Verification Code":
            raise ToolError("status must be 'Forgot Password' or 'Verification Code'", status=422)
        if str(verification_code) not in self.tables["Codes"]:
            raise ToolError("the verification code is incorrect", status=401)
        if not new_password:
            raise ToolError("new_password is required", status=422)
        self._account(self.tables["Codes"].pop(str(verification_code)))["password"] = new_password
        return "success"

    def _open_bank_account(self, account: str, password: str, name: str) -> str:
        if account in self.tables["BankAccounts"]:
            raise ToolError(f"there is an account {account!r} already", status=409)
        self.tables["BankAccounts"][account] = {"password": password, "name": name, "balance": 0.0}
        return "success"

    def _query_balance(self, token: str) -> Any:
        user = self._user(token)
        if user not in self.tables["Bank"]:
            raise ToolError(f"{user} has no bank account", status=404)
        return self.tables["Bank"][user]["balance"]

    def _query_stock(self, stock_code: str, date: str) -> Any:
        prices = self._at("Stock", stock_code, "stock")
        if date not in prices:
            raise ToolError(f"there is no price of {stock_code} on {date}", status=404)
        return prices[date]

    # Calendars ------------------------------------------------------------------------------------------------------

    def _add(self, table: str, token: str, **fields: Any) -> str:
        user = self._user(token)
        self._insert(table, {**fields, "username": user})
        return "success"

    def _insert(self, table: str, row: Row) -> str:
        number = str(max((int(key) for key in self.tables[table]), default=0) + 1)
        self.tables[table][number] = row
        return number

    def _delete(self, table: str, token: str, **fields: Any) -> str:
        del self.tables[table][self._find(table, token, fields, len(fields))]
        return "success"

    def _query(self, table: str, token: str, **fields: Any) -> Row:
        row: Row = self.tables[table][self._find(table, token, fields, len(fields))]
        return copy.deepcopy(row)

    def _modify(self, table: str, token: str, **fields: Any) -> str:
        self.tables[table][self._find(table, token, fields, 1)].update(fields)
        return "success"

    def _modify_alarm(self, token: str, from_time: str, to_time: str) -> str:
        self.tables["Alarm"][self._find("Alarm", token, {"time": from_time}, 1)]["time"] = to_time
        return "success"

    def _find(self, table: str, token: str, fields: Row, least: int) -> str:
        user = self._user(token)
        matches = {
            number: sum(_meets(name, row[name], value) for name, value in fields.items())
            for number, row in self.tables[table].items()
            if row["username"] == user
        }
        best = max(matches, key=lambda number: matches[number], default="")
        if not best or matches[best] < least:
            raise ToolError(f"{user} has no such {table.lower()}", status=404)
        return best

    # Hospital and hotel ---------------------------------------------------------------------------------------------

    def _appointment_registration(self, **fields: Any) -> str:
        number = str(self._issue("AppointmentRegistration", fields))
        self.tables["Appointments"][number] = fields
        return number

    def _modify_registration(self, appointment_id: str, new_appointment_date: str, new_appointment_doctor: str) -> str:
        row = self._at("Appointments", appointment_id, "appointment", copied=False)
        row.update(date=new_appointment_date, doctor_name=new_appointment_doctor)
        return "success"

    def _cancel_registration(self, appointment_id: str) -> str:
        self._at("Appointments", appointment_id, "appointment")
        del self.tables["Appointments"][appointment_id]
        return "success"

    def _query_registration(self, patient_name: str, date: str) -> Row:
        rows = self.tables["Appointments"].items()
        wanted = plain(patient_name), date
        found = {number: dict(row) for number, row in rows if (plain(row["patient_name"]), row["date"]) == wanted}
        if not found:
            raise ToolError(f"{patient_name} has no appointment on {date}", status=404)
        return found

    def _book_hotel(self, **fields: Any) -> str:
        if fields["check_out_time"] <= fields["check_in_time"]:
            raise ToolError("check_out_time must be after check_in_time", status=422)
        return self._insert("Hotel", fields)

    def _record_health_data(self, user_id: str, time: str, health_data: list[Row]) -> str:
        self.tables["HealthData"].setdefault(user_id, []).append({"time": time, **measured(health_data)})
        return "success"

    def _query_health_data(self, user_id: str, start_time: str, end_time: str) -> list[Row]:
        rows = self._at("HealthData", user_id, "health data of the user")
        return [row for row in rows if start_time <= row["time"] <= end_time]

    def _diseases(self, symptom: str, description: str) -> list[Row]:
        rows = self._at("Symptom", symptom, "entry for the symptom")
        return [{"name": row["name"], description: row[description]} for row in rows]

    # Smart home -----------------------------------------------------------------------------------------------------

    def _add_scene(self, name: str, devices: list[Row]) -> str:
        if self._key("Scenes", name) is not None:
            raise ToolError(f"there is a scene {name!r} already", status=409)
        self.tables["Scenes"][name.casefold()] = devices
        return "success"

    def _modify_scene(self, name: str, devices: list[Row]) -> str:
        self._at("Scenes", name, "scene")
        self.tables["Scenes"][self._key("Scenes", name)] = devices
        return "success"

    def _delete_scene(self, name: str) -> str:
        self._at("Scenes", name, "scene")
        del self.tables["Scenes"][self._key("Scenes", name)]
        return "success"

    def _timed_switch(self, name: str, time: str, on: bool) -> str:
        key = self._key("TimeSwitch", name) or name.casefold()
        self.tables["TimeSwitch"].setdefault(key, []).append({"time": time, "on": on})
        return "success"

    def _cancel_timed_switch(self, name: str, time: str) -> str:
        rows: list[Row] = self._at("TimeSwitch", name, "device", copied=False)
        left = [row for row in rows if row["time"] != time]
        if len(left) == len(rows):
            raise ToolError(f"{name} is not to be switched at {time}", status=404)
        rows[:] = left
        return "success"

    # Look-ups and the rest ------------------------------------------------------------------------------------------

    def _key(self, table: str, name: str) -> str | None:
        return next((key for key in self.tables[table] if key.casefold() == name.strip().casefold()), None)

    def _at(self, table: str, name: str, what: str, copied: bool = True) -> Any:
        key = self._key(table, name)
        if key is None:
            raise ToolError(f"there is no {what} {name!r}", status=404)
        return copy.deepcopy(self.tables[table][key]) if copied else self.tables[table][key]

    def _query_history_today(self, date: str) -> list[str]:
        events = self._at("History", date, "history of the day (MM-DD)")
        return [", ".join(f"{name}: {text}" for name, text in event.items()) for event in events]

    def _image_caption(self, url: str) -> str:
        for image in self.tables["ImageCaptioning"]:
            if image["url"] == url:
                return str(image["caption"])
        raise ToolError(f"there is no image at {url!r}", status=404)

    def _answered(self, url: str, question: str) -> str:
        for known in self._at("QuestionAnswering", url, "document at"):
            if plain(known["question"]) == plain(question):
                return str(known["answer"])
        raise ToolError("the question is too difficult to answer", status=404)

    def _search_engine(self, keyword: str) -> list[Row]:
        documents = self.tables["SearchEngine"]
        return [dict(documents["raw_documents"][at]) for at in best_two(keyword, documents["tokenized_documents"])]

    def _send_email(self, **fields: Any) -> str:
        self._insert("Sent", fields)
        return "success"

    def _play_music(self, music_name: str) -> str:
        self._insert("Played", {"music_name": plain(music_name)})
        return f"music://{music_name.casefold()}"

    def _calculator(self, formula: str) -> float:
        try:
            value = float(calculate(formula))
        except (OverflowError, TypeError):
            value = math.inf  # too large, or no real number
        if not math.isfinite(value):
            raise ToolError(f"cannot evaluate {formula[:200]!r}: its value is no number", status="invalid")
        return value

    def _translate(self, src: str, src_lang: str = "auto", tgt_lang: str = "en") -> str:
        return str(self._known("Translate", {"src": plain(src), "tgt_lang": language(tgt_lang)}))

    def _known(self, tool: str, wanted: Arguments) -> Any:
        for arguments, output in self._recorded.get(tool, ()):
            folded = {name: plain(arguments.get(name, "en")) for name in wanted}
            if "tgt_lang" in folded:
                folded["tgt_lang"] = language(folded["tgt_lang"])
            if folded == wanted:
                return copy.deepcopy(output)
        raise ToolError(f"{tool}: nothing was found for these arguments", status=404)


def best_two(query: str, documents: list[list[str]]) -> list[int]:
    """The places of the two documents that fit a query best."""
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    found, scores = index.retrieve([query.casefold().split()], k=min(2, len(documents)), show_progress=False)
    return [int(at) for at, score in zip(found[0], scores[0], strict=True) if score > 0]


def _meets(name: str, had: Any, asked: Any) -> bool:
    """Whether a row has what is asked for: an agenda knows the day alone."""
    return alike(name, had, asked) or (name == "time" and str(asked).startswith(f"{had} "))
