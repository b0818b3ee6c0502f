"""Probing services that nobody here wrote: they are started from an environment of their own, on loopback."""

from __future__ import annotations

import pytest

from atc.probing.report import Line
from benchmarks.probing.services import OTHERS, SERVICES, probed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SERVICES / "gunicorn").exists(), reason="`make services` installs these services"),
]


def lines(name: str) -> dict[str, Line]:
    return {line.tool: line for line in probed(OTHERS[name]).report.lines}


def test_one_endpoint_that_demands_a_login_ends_only_itself() -> None:
    found = lines("httpbin")
    states = [line.state for line in found.values()]
    assert states.count("documented") >= 16
    undocumented = {name: line.reason for name, line in found.items() if line.state == "undocumented"}
    assert "401" in undocumented["get_bearer"]
    assert "401" in undocumented["get_basic_auth_by_user_by_passwd"]
    assert [name for name, why in undocumented.items() if "401" in why and "auth" not in name] == ["get_bearer"]
    assert "compressed" in undocumented["get_brotli"]


def test_names_are_taken_from_one_answer_to_the_next() -> None:
    found = lines("datasette")
    assert found["get_by_database_by_table_by_pk_json"].state == "documented"


def test_who_was_turned_away_for_a_guess_is_asked_for_what_is_there() -> None:
    found = lines("kinto")
    documented = {name for name, line in found.items() if line.state == "documented"}
    # kinto draws the names of its records, and answers some guesses among them with a 401
    assert documented - {"get_buckets_collections_records_by_record_id"} == {
        *("get", "get_heartbeat", "get_buckets", "get_buckets_by_bucket_id", "get_buckets_by_bucket_id_collections"),
        *("get_buckets_by_bucket_id_groups", "get_buckets_by_bucket_id_groups_by_group_id"),
        *("get_buckets_collections_by_collection_id", "get_buckets_collections_by_collection_id_records"),
    }
