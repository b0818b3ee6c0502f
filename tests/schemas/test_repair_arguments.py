"""Arguments are repaired by rule where they can be meant in one way; those of a write say the same as before."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atc.result import Effect
from atc.schemas.repair import RULES, repair_arguments
from atc.schemas.repair.spelling import like, near, respelt
from atc.schemas.validate import problems
from tests.schemas.test_schemas import JSON, SCHEMA, parameters
from tests.support.same_request import same_request
from tests.support.time import little_work

READ, WRITE, UNKNOWN = Effect.READ, Effect.WRITE, Effect.UNKNOWN
INTEGER, NUMBER, TEXT, TRUTH = ({"type": kind} for kind in ("integer", "number", "string", "boolean"))


def sent(schema: dict[str, Any], arguments: dict[str, Any], effect: Effect = READ, **more: Any) -> Any:
    """The repaired arguments; ``None`` where something is still wrong."""
    made = repair_arguments(schema, arguments, effect, **more)
    return None if made.problems else made.arguments


def one(schema: dict[str, Any], value: Any, effect: Effect = READ, name: str = "x") -> Any:
    """What becomes of one argument; ``None`` where it is refused."""
    made = sent({**parameters(**{name: schema}), "required": [name]}, {name: value}, effect)
    return None if made is None else made[name]


# -- keys --------------------------------------------------------------------------------------------------------------

FLIGHT = parameters(
    taskId=INTEGER, departure_date=TEXT, passengers=INTEGER, weight=NUMBER, min_price=NUMBER, max_price=NUMBER,
    filters={"type": "array", "items": TEXT}, user_id=TEXT,
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "read", "write"),
    [
        ("taskid", "taskId", "taskId"),
        ("task_id", "taskId", "taskId"),
        ("TASK-ID", "taskId", "taskId"),
        ("departureDate", "departure_date", "departure_date"),
        ("taskIds", "taskId", None),
        ("passenger", "passengers", None),
        ("passengrs", "passengers", None),
        ("pasengers", "passengers", None),
        ("psasengers", "passengers", None),
        ("passangers", "passengers", None),
        ("deparure_date", "departure_date", None),
        ("height", None, None),  # one letter from `weight`
        ("mid_price", None, None),
        ("user_ip", None, None),
        ("passengers2", None, None),
        ("x", None, None),
        ("", None, None),
        ("__class__", None, None),
        ("größe", None, None),
    ],
)
def test_an_unknown_key_is_the_one_parameter_of_that_spelling(key: str, read: str | None, write: str | None) -> None:
    values = {"departure_date": "2024-05-01", "filters": ["a"], "user_id": "u1"}
    for effect, name in ((READ, read), (WRITE, write), (UNKNOWN, write)):
        arguments = {key: values.get(name or "", 3)}
        made = repair_arguments(FLIGHT, arguments, effect)
        if name is not None:
            assert (made.arguments, made.problems) == ({name: arguments[key]}, ())
            assert [(each.kind, each.path, each.name) for each in made.repairs] == [("respelt", (key,), name)]
        elif effect is READ and not any(like(key, each) for each in FLIGHT["properties"]):
            assert (made.arguments, made.problems) == ({}, ())
            assert [each.kind for each in made.repairs] == ["dropped"]
        else:
            assert made.arguments is arguments
            assert made.problems[0].path == (key,)


def test_a_key_that_may_mean_two_parameters_means_none() -> None:
    assert respelt(["wieght"], ["weight", "wight"], []) == {}
    assert respelt(["taskid", "task_id"], ["taskId"], []) == {}
    assert respelt(["taskid"], ["taskId", "TASK_ID"], ["taskId"]) == {}
    assert respelt(["colour"], ["color", "colours"], ["colours"]) == {}
    assert respelt(["task_id"], ["taskId"], ["taskId"]) == {}


def test_a_key_that_ends_like_the_one_that_is_missing_is_that_one_of_a_read() -> None:
    schema = {**parameters(city_id=INTEGER, name=TEXT), "required": ["city_id"]}
    assert sent(schema, {"id": 5}) == {"city_id": 5}
    assert sent(schema, {"id": 5}, WRITE) is None
    assert sent(schema, {"id": "Rome"}) is None
    assert sent(schema, {"id": 5, "key": 6}) is None


def test_keys_that_are_known_to_mean_a_parameter_come_first_in_a_read() -> None:
    schema = parameters(user=TEXT, uid=INTEGER)
    assert sent(schema, {"who": "u"}, key_aliases={"who": "user"}) == {"user": "u"}
    assert sent(schema, {"who": "u"}, key_aliases={"who": "nobody"}) == {}
    assert sent(schema, {"who": "u", "user": "v"}, key_aliases={"who": "user"}) == {"user": "v"}
    assert sent(schema, {"who": "u", "whom": "v"}, key_aliases={"who": "user", "whom": "user"}) == {}


def test_what_was_learnt_changes_no_target_of_a_write() -> None:
    schema = parameters(to_account=TEXT, amount=INTEGER)
    given = {"from_account": "a", "amount": 1}
    assert sent(schema, given, WRITE, key_aliases={"from_account": "to_account"}) is None
    assert not same_request(schema, given, {"to_account": "a", "amount": 1})
    assert sent(schema, {"ToAccount": "a", "amount": 1}, WRITE) == {"to_account": "a", "amount": 1}


@pytest.mark.parametrize(
    ("parameter", "key"),
    [
        ("contact_id", "contract_id"),
        ("sender", "spender"),
        ("prayer", "payer"),
        ("deleted", "delete"),
        ("approver", "approve"),
        ("owners", "owner"),
        ("hour", "hours"),
        ("minute", "minutes"),
        ("second", "seconds"),
        ("all_user", "all_users"),
        ("enabled", "enable"),
        ("country", "county"),
        ("countries", "counties"),
        ("email_cc", "emailbcc"),
        ("पता", "पति"),
        ("größe", "grüße"),
        ("振込先account", "振込元account"),
    ],
)
def test_another_word_is_no_slip_in_a_write(parameter: str, key: str) -> None:
    schema = parameters(**{parameter: TEXT})
    assert sent(schema, {key: "x"}, WRITE) is None
    assert not same_request(schema, {key: "x"}, {parameter: "x"})


@pytest.mark.parametrize(
    ("says", "given"),
    [
        ("Amount in euros, not cents", "100 cents"),
        ("Amount in euros, not in dollars", "100 dollars"),
        ("Amount in EUR. CHF is not supported", "100 CHF"),
        ("Amount in Australian dollars", "100 USD"),
        ("A rate as a fraction of one, not in percent", "5%"),
        ("A rate, 0.05 for 5%", "5%"),
        ("The number, such as 5 million", "5 million"),
        ("The amount", "0.99999999999999999"),
        ("The amount", "1e-400"),
        ("The amount", "1e999"),
        ("Distance in km", "1.000000000000001000001 km"),
    ],
)
def test_no_number_of_a_write_loses_what_it_says(says: str, given: str) -> None:
    schema = parameters(amount={**NUMBER, "description": says})
    assert sent(schema, {"amount": given}, WRITE) is None
    assert not same_request(schema, {"amount": given}, {"amount": sent(schema, {"amount": given}) or 1})


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 0.10000000000000000001}', '{"a": 1e400}'])
def test_a_json_text_that_would_lose_something_is_left_alone(text: str) -> None:
    assert sent(parameters(x={"type": "object"}), {"x": text}) is None
    assert sent(parameters(x={"type": "object"}), {"x": '{"a": 0.1}'}) == {"x": {"a": 0.1}}


@pytest.mark.parametrize(
    ("schema", "text", "number"),
    [
        (INTEGER, "7", 7),
        (INTEGER, "-7", -7),
        (INTEGER, "12345678901234567890", 12345678901234567890),
        (NUMBER, "7", 7),
        (NUMBER, "0.5", 0.5),
        (NUMBER, "5.0", 5.0),
        (INTEGER, "5.0", None),
        (INTEGER, "1.000", None),  # a thousand, where the comma is the point
        (NUMBER, "1.000", None),
        (NUMBER, "1,5", None),
        (NUMBER, "1e3", None),
        (NUMBER, "0.10000000000000000001", None),
        (INTEGER, "007", None),
        (INTEGER, "-0", None),
        (INTEGER, "+7", None),
        (INTEGER, " 7", None),
        (INTEGER, "٧", None),
        (INTEGER, "hundred", None),
        ({"type": ["integer", "string"]}, "7", "7"),
    ],
)
def test_a_text_is_the_number_of_a_write_where_the_number_is_written_just_so(
    schema: dict[str, Any], text: str, number: Any
) -> None:
    made = one(schema, text, WRITE)
    assert (made, type(made)) == (number, type(number))
    if number is not None and number != text:
        assert same_request(parameters(x=schema), {"x": text}, {"x": number})
    elif number is None:
        assert not same_request(parameters(x=schema), {"x": text}, {"x": 7})


@pytest.mark.parametrize(
    ("schema", "given", "nearest"),
    [
        (parameters(hour=INTEGER), {"hours": 5}, "may be hour;"),
        (parameters(city=TEXT), {"cities": "Rome"}, "may be city;"),
        (parameters(amount=NUMBER), {"amount": "1.000"}, "nearest is 1$"),
        (parameters(to=TEXT), {"to": ["Ann"]}, 'nearest is "Ann"'),
        (parameters(flag=TRUTH), {"flag": "yes"}, "nearest is true"),
    ],
)
def test_what_a_write_refuses_is_named_with_the_nearest(
    schema: dict[str, Any], given: dict[str, Any], nearest: str
) -> None:
    made = repair_arguments(schema, given, WRITE)
    assert made.arguments is given
    assert re.search(nearest, str(made.problems[0]))


def test_the_nearest_shows_no_credential() -> None:
    made = repair_arguments(parameters(to=TEXT), {"to": ["s3cret"]}, WRITE, masked=lambda value: "***")
    assert str(made.problems[0]).endswith('; the nearest is "***"')


def test_a_null_that_a_tool_takes_says_something() -> None:
    schema = parameters(id=INTEGER, due={"type": ["string", "null"]}, note=TEXT)
    assert not same_request(schema, {"id": 1, "due": None}, {"id": 1})
    assert same_request(schema, {"id": 1, "note": None}, {"id": 1})


def test_alternatives_in_one_another_do_not_multiply() -> None:
    schema = {
        **parameters(a={"$ref": "#/$defs/any"}),
        "$defs": {"any": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/any"}}] * 12}},
    }
    given: Any = "a"
    made: Any = "b"
    for _ in range(12):
        given, made = [given], [made]
    assert not same_request(schema, {"a": given}, {"a": made})


def test_keys_of_objects_inside_are_respelt_too() -> None:
    place = {**parameters(latitude=NUMBER, longitude=NUMBER), "required": ["latitude", "longitude"]}
    schema = {
        **parameters(at={"$ref": "#/$defs/Place"}, many={"type": "array", "items": place}),
        "$defs": {"Place": place},
    }
    given = {"at": {"Latitude": "1.5", "longi_tude": 2}, "many": [{"latitude": 1, "longitude": 2, "name": "x"}]}
    made = repair_arguments(schema, given, WRITE)
    assert made.problems == ()
    assert made.arguments == {"at": {"latitude": 1.5, "longitude": 2}, "many": given["many"]}
    assert [(each.kind, each.path) for each in made.repairs] == [
        ("respelt", ("at", "Latitude")),
        ("respelt", ("at", "longi_tude")),
        ("format", ("at", "Latitude")),  # the path is the one in what was given
    ]


def test_an_object_that_takes_any_key_keeps_them() -> None:
    open_ended = {**parameters(taskId=INTEGER), "additionalProperties": True}
    assert sent(open_ended, {"task_id": 1}, WRITE) == {"task_id": 1}
    assert sent({**open_ended, "required": ["taskId"]}, {"task_id": 1, "more": 2}, WRITE) == {"taskId": 1, "more": 2}


# -- what a write refuses ----------------------------------------------------------------------------------------------

PAY = {
    **parameters(amount={"type": "number", "description": "in EUR"}, to=TEXT, note=TEXT),
    "required": ["amount", "to"],
}


@pytest.mark.parametrize("effect", [WRITE, UNKNOWN])
def test_an_unknown_argument_of_a_write_is_named_with_what_there_is(effect: Effect) -> None:
    made = repair_arguments(PAY, {"amount": 5, "to": "Ann", "currency": "USD"}, effect)
    assert made.arguments == {"amount": 5, "to": "Ann", "currency": "USD"}
    (problem,) = made.problems
    assert str(problem).startswith("$.currency: ")
    assert "amount, to, note" in str(problem)


# -- values ------------------------------------------------------------------------------------------------------------

UNITS = {"enum": ["metric", "imperial", "-date"]}
KM = {"type": "number", "description": "how far, in kilometers"}
DATE = {"type": "string", "format": "date"}
US = {"type": "string", "description": "as MM/DD/YYYY", "pattern": r"^\d\d/\d\d/\d{4}$"}
LEVEL = {"type": "integer", "enum": [1, 3], "x-enum-varnames": ["LOW", "HIGH"]}


@pytest.mark.parametrize(
    ("schema", "given", "read", "write"),
    [
        ({**TEXT, **UNITS}, "Metric", None, None),
        ({"enum": [1, 2]}, "2", 2, 2),
        ({"enum": ["1", "2"]}, 2, "2", None),
        (LEVEL, "HIGH", None, None),
        (LEVEL, "3", 3, 3),
        ({"type": "array", "items": LEVEL}, ["1", 3], [1, 3], [1, 3]),
        ({"enum": [1, 3], "x-enum-varnames": ["3", "1"]}, "3", 3, 3),
        (INTEGER, "three", 3, None),
        (INTEGER, "1,200", 1200, None),  # elsewhere a comma is a point
        (INTEGER, "1,20", None, None),
        (KM, "5 km", 5, None),
        (KM, "5.5km", 5.5, None),
        (KM, "5 miles", None, None),
        (NUMBER, "5 km", 5, None),
        ({**NUMBER, "description": "km or miles"}, "5 km", None, None),
        (INTEGER, "5.5 km", None, None),
        (INTEGER, "5 of them", None, None),
        ({**NUMBER, "description": "in USD"}, "$5", 5, None),
        ({**NUMBER, "description": "in USD"}, "5 EUR", None, None),
        (NUMBER, "007", None, None),
        (NUMBER, "0.123456789012345678", 0.12345678901234568, None),
        (TRUTH, "Yes", True, None),
        (TRUTH, "true", True, None),
        (TRUTH, "off", False, None),
        (TRUTH, 1, None, None),
        ({"type": "array", "items": TEXT}, '["a", "b"]', ["a", "b"], None),
        ({"type": "array", "items": INTEGER}, '["1"]', [1], None),
        ({"type": "array", "items": INTEGER}, ["1"], [1], [1]),
        ({"type": "array", "items": INTEGER}, "[NaN]", None, None),
        ({"type": "object"}, '{"a": 1}', {"a": 1}, None),
        ({"type": "array", "items": INTEGER}, "5", [5], None),
        (DATE, "2024-05-01", "2024-05-01", "2024-05-01"),
        (DATE, "May 5, 2024", "2024-05-05", "May 5, 2024"),  # it is text, so a write keeps it
        (DATE, "5th May 2024", "2024-05-05", "5th May 2024"),
        (DATE, "25/12/2024", "2024-12-25", "25/12/2024"),
        (DATE, "05/06/2024", "05/06/2024", "05/06/2024"),
        (DATE, "2024-02-30", "2024-02-30", "2024-02-30"),
        (DATE, "2024-05-01T10:00:00Z", "2024-05-01", "2024-05-01T10:00:00Z"),
        (DATE, "tomorrow", "tomorrow", "tomorrow"),
        ({**DATE, "format": "date-time"}, "2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01"),
        (US, "2024-05-01", "05/01/2024", None),
        (US, "1 May 2024", "05/01/2024", None),
        (US, "05/06/2024", "05/06/2024", "05/06/2024"),
        (INTEGER, [7], 7, None),
        (INTEGER, ["7"], 7, None),
        (INTEGER, [7, 8], None, None),
        (INTEGER, [], None, None),
        (INTEGER, {"x": 7}, 7, None),
        (INTEGER, {"X": "7"}, 7, None),
        (INTEGER, {"value": 7}, 7, None),
        (INTEGER, {"x": 7, "unit": "km"}, 7, None),
        (INTEGER, {"a": 7, "b": 8}, None, None),
        (INTEGER, {"a": "seven of them"}, None, None),
        (INTEGER, [{"x": 7}], 7, None),
        (TEXT, {"a": {"b": "c"}}, None, None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5, 5),
        ({"anyOf": [INTEGER, TRUTH]}, "5", 5, 5),
        ({"anyOf": [INTEGER, TRUTH]}, "perhaps", None, None),
        ({"oneOf": [parameters(a=INTEGER) | {"required": ["a"]}, TEXT]}, {"A": 1}, {"a": 1}, {"a": 1}),
        ({"allOf": [{"$ref": "#/properties/x/$defs/n"}], "$defs": {"n": INTEGER}}, "5", 5, 5),
    ],
)  # fmt: skip
def test_a_value_is_repaired_where_it_has_one_meaning(
    schema: dict[str, Any], given: Any, read: Any, write: Any
) -> None:
    for effect, wanted in ((READ, read), (WRITE, write)):
        made = one(schema, given, effect)
        assert (made, type(made)) == (wanted, type(wanted)), effect


def test_the_field_of_an_object_is_the_one_that_fits_by_type_format_and_name() -> None:
    city = {"id": 7, "name": "Rome", "country_id": 3}
    assert one(INTEGER, city, name="city_id") == 7
    assert one(INTEGER, city, name="country_id") == 3
    assert one(TEXT, {"name": "Rome", "note": "x"}, name="city_name") == "Rome"
    assert one(TEXT, {"code": "it", "label": "x"}, name="currency") is None
    made = repair_arguments(parameters(city_id=INTEGER), {"city_id": city})
    assert [(each.kind, each.path, each.name, each.given) for each in made.repairs] == [
        ("unwrapped", ("city_id",), "id", city)
    ]
    every = repair_arguments(parameters(city_ids={"type": "array", "items": INTEGER}), {"city_ids": [city, city]})
    assert every.arguments == {"city_ids": [7, 7]}


def test_a_rule_that_is_off_repairs_nothing() -> None:
    schema = {
        **parameters(taskId=INTEGER, flag=TRUTH),
        "required": ["taskId"],
    }
    for rule, arguments in {
        "argument-respelling": {"taskid": 1},
        "argument-unwrap": {"taskId": [1]},
        "argument-format": {"taskId": 1, "flag": "yes"},
    }.items():
        assert sent(schema, arguments) is not None, rule
        assert sent(schema, arguments, rules=RULES - {rule}) is None, rule
        assert sent(schema, arguments, rules=frozenset({rule})) is not None, rule


# -- whether two requests say the same ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "made", "same"),
    [
        ({"amount": 5, "to": "Ann"}, {"to": "Ann", "amount": 5.0}, True),
        ({"amount": "5", "To": "Ann"}, {"to": "Ann", "amount": 5}, True),
        ({"amount": "5 EUR", "to": "Ann"}, {"to": "Ann", "amount": 5}, False),
        ({"amount": 5, "to": ["Ann"]}, {"to": "Ann", "amount": 5}, False),
        ({"amount": "5 USD", "to": "Ann"}, {"to": "Ann", "amount": 5}, False),
        ({"amount": 5, "to": "Ann", "note": None}, {"to": "Ann", "amount": 5}, True),
        ({"amount": 5, "to": "Ann", "currency": "USD"}, {"to": "Ann", "amount": 5}, False),
        ({"amount": 5, "to": "Ann", "currency": "USD"}, {"to": "Ann", "amount": 5, "note": "USD"}, False),
        ({"amount": 5, "to": "Ann"}, {"to": "Ann", "amount": 5, "note": "x"}, False),
        ({"amount": 5, "to": "Ann"}, {"to": "Bob", "amount": 5}, False),
        ({"amount": 5, "to": "Ann"}, {"to": "ann", "amount": 5}, False),
        ({"amount": 5, "to": "Ann"}, {"to": "Ann", "amount": True}, False),
        ({"amount": 1, "to": "Ann"}, {"to": "Ann", "amount": True}, False),
        ({"amount": 5, "to": "Ann", "note": "x"}, {"to": "Ann", "amount": 5}, False),
        ({"amuont": 5, "to": "Ann"}, {"to": "Ann", "amount": 5}, False),
        ({"amount": 5, "to": 7}, {"to": "7", "amount": 5}, False),
    ],
)
def test_whether_two_requests_say_the_same(given: dict[str, Any], made: dict[str, Any], same: bool) -> None:
    assert same_request(PAY, given, made) is same


# -- any schema, any arguments -----------------------------------------------------------------------------------------

KEYS = st.sampled_from(["taskId", "taskid", "task_ids", "a", "A", "passengers", "pasengers", "x"]) | st.text(max_size=2)
WORDS = st.sampled_from(
    ["5", "5 km", "yes", "three", "2024-05-01", "May 5, 2024", "Metric", "high", '["1"]', '{"a": 1}', " 7 "]
)
VALUES = st.recursive(
    JSON | WORDS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
RICH = st.one_of(
    SCHEMA,
    st.sampled_from([
        DATE, US, KM, UNITS, LEVEL, {"enum": [1, "a_b"]}, {"const": "x"}, {"type": "string", "default": "d"},
    ]),
    st.lists(SCHEMA, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
)  # fmt: skip
ROOTS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(KEYS, RICH, max_size=4)},
    optional={"required": st.lists(KEYS, max_size=2, unique=True), "additionalProperties": st.booleans()},
)


NULLED: dict[str, Any] = {"type": "object", "properties": {"A": {"type": "string"}}}
EITHER: dict[str, Any] = {"type": "object", "properties": {"A": {"anyOf": [{"type": "array"}, {"type": "string"}]}}}


@example(schema=NULLED, arguments={"a": None}, effect=WRITE)
@example(schema=EITHER, arguments={"a": {}}, effect=WRITE)
@given(schema=ROOTS, arguments=st.dictionaries(KEYS, VALUES, max_size=4), effect=st.sampled_from([READ, WRITE]))
def test_what_is_repaired_once_stays_and_what_is_given_is_never_changed(
    schema: dict[str, Any], arguments: dict[str, Any], effect: Effect
) -> None:
    before = copy.deepcopy((schema, arguments))
    made = repair_arguments(schema, arguments, effect)
    assert (schema, arguments) == before
    assert bool(made.problems) or problems(schema, made.arguments) == []
    if effect is WRITE:
        assert same_request(schema, arguments, made.arguments)
        assert not {each.kind for each in made.repairs} & {"dropped"}
        assert len(made.arguments) <= len(arguments)
    if any(each.kind == "left_out" for each in made.repairs):
        return  # a null that is left out makes room for another spelling of its key, and nothing is repaired twice
    again = repair_arguments(schema, made.arguments, effect)
    assert again.arguments == made.arguments
    assert [(each.path, each.keyword) for each in again.problems] == [
        (each.path, each.keyword) for each in made.problems
    ]


@given(ROOTS, st.dictionaries(KEYS, JSON, max_size=4), st.sampled_from([READ, WRITE]))
def test_valid_arguments_are_the_same_object_afterwards(
    schema: dict[str, Any], arguments: dict[str, Any], effect: Effect
) -> None:
    closed = not schema.get("additionalProperties") and not arguments.keys() <= schema["properties"].keys()
    whole = any(isinstance(each, float) and each.is_integer() for each in _leaves(arguments))
    if not closed and not whole and not problems(schema, arguments):
        made = repair_arguments(schema, arguments, effect)
        assert made.arguments is arguments
        assert (made.repairs, made.problems, made.more) == ((), (), 0)


def _leaves(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if items is None else [leaf for item in items for leaf in _leaves(item)]


# -- what a stranger can size ------------------------------------------------------------------------------------------


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


NODE = {"type": "object", "properties": {"child": {"$ref": "#/$defs/n"}, "v": INTEGER}, "required": ["v"]}
ANY: dict[str, Any] = {
    "anyOf": [{"$ref": "#/$defs/n"}, {"type": "array", "items": {"$ref": "#/$defs/n"}}, INTEGER, NODE]
}


@pytest.mark.parametrize("effect", [READ, WRITE])
@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (parameters(**{f"param_{i}": TEXT for i in range(1000)}), {f"parm_{i}x": 1 for i in range(10_000)}),
        (parameters(**{f"param_{i}": TEXT for i in range(1000)}), {f"parma_{i}": 1 for i in range(16)}),
        (parameters(a=INTEGER), {"a": "9" * 1_000_000}),
        (parameters(a=INTEGER), {"a" * 1_000_000: 1}),
        (parameters(a={"type": "array", "items": INTEGER}), {"a": "[" * 90_000}),
        (parameters(a={"type": "array", "items": {"enum": [f"v {i}" for i in range(1000)]}}), {"a": ["w 1"] * 1000}),
        (parameters(a={"type": "array", "items": {"anyOf": [INTEGER, TRUTH]}}), {"a": ["perhaps"] * 3000}),
        (parameters(a=INTEGER), {"a": nested("x", 100_000)}),
        (parameters(a=INTEGER), {"a": nested("x", 120)}),
        ({**parameters(n={"$ref": "#/$defs/n"}), "$defs": {"n": NODE}}, {"n": {"v": "1", "child": {"v": "x"}}}),
        ({**parameters(n={"$ref": "#/$defs/n"}), "$defs": {"n": ANY}}, {"n": {"a": nested({"b": "5"}, 30)}}),
        ({"$ref": "#"}, {"a": 1}),
        (parameters(a={"$ref": "#/properties/a"}, b=INTEGER), {"a": 1, "b": "x"}),
        (parameters(a=INTEGER), {"a": math.nan, "b": math.inf}),
        (parameters(a=INTEGER), {"a": "\ud800", "\ud800": 1}),
        (parameters(a=True, b=False), {"a": 1, "b": 2}),
        (parameters(a={"$ref": "#/nowhere"}), {"a": 1}),
        (parameters(a={"type": "nothing"}), {"a": 1}),
        ({"properties": [], "required": 5}, {"a": 1}),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)
def test_hostile_arguments_and_schemas_are_answered_in_bounded_work(
    schema: dict[str, Any], arguments: dict[str, Any], effect: Effect
) -> None:
    with little_work():
        made = repair_arguments(schema, arguments, effect)
        assert len(made.repairs) <= 20
        assert len(str(made.repairs)) < 20_000
        assert all(len(str(problem)) < 20_000 for problem in made.problems)
        same_request(schema, arguments, made.arguments)


def test_names_and_values_that_are_near() -> None:
    assert near("passangers", "passengers")
    assert not near("lat", "lot")
    assert not near("address1", "address2")


@pytest.mark.parametrize("effect", [READ, WRITE])
@pytest.mark.parametrize(
    ("name", "schema", "given", "wanted"),
    [
        ("seconds", NUMBER, "PT5M", 300),
        ("seconds", NUMBER, "PT0.25S", 0.25),
        ("seconds", INTEGER, "-PT1H30M", -5400),
        ("length", {"type": "integer", "description": "Length in seconds."}, "P1DT2H", 93_600),
        ("minutes", INTEGER, "PT5M", 5),
        ("duration_minutes", INTEGER, "PT1H", 60),
        ("timeoutMs", INTEGER, "PT1.5S", 1500),
        ("hours", NUMBER, "PT90M", 1.5),
        ("days", INTEGER, "P400D", 400),
    ],
)
def test_a_duration_becomes_a_number_in_the_unit_that_the_argument_names(
    effect: Effect, name: str, schema: dict[str, Any], given: str, wanted: float
) -> None:
    assert sent(parameters(**{name: schema}), {name: given}, effect) == {name: wanted}


@pytest.mark.parametrize(
    ("name", "schema", "given", "effect"),
    [
        ("minutes", INTEGER, "PT30S", READ),  # half a one
        ("hours", NUMBER, "PT20M", READ),  # a third
        ("distance_km", NUMBER, "PT5M", READ),
        ("length", {"type": "number", "description": "Minutes or seconds."}, "PT5M", READ),
        ("delay", NUMBER, "PT5M", WRITE),  # nothing says that it is in seconds
        ("seconds", NUMBER, "P1M", READ),
        ("seconds", NUMBER, "P", READ),
        ("seconds", NUMBER, "PT", READ),
    ],
)
def test_a_duration_that_is_no_number_of_that_unit_is_refused(
    name: str, schema: dict[str, Any], given: str, effect: Effect
) -> None:
    repaired = repair_arguments(parameters(**{name: schema}), {name: given}, effect)
    assert repaired.problems
    assert repaired.arguments == {name: given}


def test_a_duration_is_in_seconds_for_a_read_that_names_no_unit_and_stays_text_where_text_is_taken() -> None:
    assert sent(parameters(delay=NUMBER), {"delay": "PT5M"}, READ) == {"delay": 300}
    text = {"type": "string", "format": "duration"}
    assert sent(parameters(delay={"anyOf": [text, NUMBER]}), {"delay": "PT5M"}, READ) == {"delay": "PT5M"}
