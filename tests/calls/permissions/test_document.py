"""The permissions file: what is not understood is an error that says where."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from atc.calls.permissions import Caps, Permissions, Who
from atc.calls.permissions.document import MAX_FILE, MAX_RULES
from atc.errors import SettingsError, UsageError
from tests.support.permissions import file_of, written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= 1", "cannot be read"),
        ("raed_only = true", "`raed_only`: there is no such key"),
        ('read_only = "yes"', "`read_only`: Input should be a valid boolean"),
        ("read_only = 1", "`read_only`: Input should be a valid boolean"),
        ("rules = 1", "`rules`: Input should be a valid list"),
        ("[[rules]]", "rule 1: takes one of `allow`, `ask` and `deny`"),
        ('[[rules]]\nallow = "a"\n[[rules]]\nallow = "a"\ndeny = "b"', "rule 2: takes one of"),
        ("[[rules]]\nallow = 1", "rule 1, `allow`: takes a pattern, or a list of patterns"),
        ("[[rules]]\nallow = []", "rule 1, `allow`: takes 1 to 200 patterns"),
        ('[[rules]]\nallow = ""', "rule 1, `allow`: the pattern '' is empty"),
        (f'[[rules]]\nallow = "{"a" * 201}"', "has 201 characters; 200 at most"),
        (f'[[rules]]\nallow = "{"*a" * 13}"', "has 13 stars; 12 at most"),
        ('[[rules]]\nallow = "a"\nclient = "c"', "rule 1: `client` stands beside `ask` and `deny` alone"),
        (
            '[[rules]]\nallow = "a"\neffect = "reads"',
            "rule 1, `effect.0`: Input should be 'read', 'write' or 'unknown'",
        ),
        ('[[rules]]\nallow = "a"\narguments = "b"', "rule 1, `arguments`: takes a table of 1 to 20 arguments"),
        ('[[rules]]\nallow = "a"\narguments = {}', "rule 1, `arguments`: takes a table of 1 to 20 arguments"),
        ('[[rules]]\nallow = "a"\narguments = {"a..b" = 1}', "`a..b`: the path takes 1 to 10 names"),
        ('[[rules]]\nallow = "a"\narguments = {n = {mx = 1}}', "`n`: there is no key 'mx' here, but min, max, is"),
        ('[[rules]]\nallow = "a"\narguments = {n = {}}', "`n`: takes one of min, max"),
        ('[[rules]]\nallow = "a"\narguments = {n = {max = "1"}}', "`n`: `max` takes a number"),
        ('[[rules]]\nallow = "a"\narguments = {n = {max = nan}}', "`n`: `max` takes a number"),
        ('[[rules]]\nallow = "a"\narguments = {n = {min = 2, max = 1}}', "`min` is greater than `max`"),
        ('[[rules]]\nallow = "a"\narguments = {n = {min = 2, is = 1}}', "any other key stands alone"),
        ('[[rules]]\nallow = "a"\narguments = {n = [1979-05-27]}', "`n`: takes a text, a number, true or false"),
        ('[[rules]]\nallow = "a"\narguments = {n = []}', "`n`: takes 1 to 200 values"),
        ('[effects]\na = "reads"', "`effects`, `a`: Input should be 'read', 'write' or 'unknown'"),
        (f'[effects]\n"{"a" * 300}" = "read"', "has 300 characters"),
        ("[caps]\nmax_calls = 0", "`caps`, `max_calls`: Input should be greater than or equal to 1"),
        ("[caps]\nwall_s = inf", "`caps`, `wall_s`: Input should be"),
        ("[caps]\ncalls_per_hour = true", "`caps`, `calls_per_hour`: Input should be a valid integer"),
        ("[clients.ann]\ntool = 1", "client 'ann', `tool`: there is no such key"),
        ("[clients.ann]\ntools = [1]", "client 'ann', `tools`: takes a pattern"),
        ("\n".join(['[[rules]]\nallow = "a"'] * (MAX_RULES + 1)), "`rules`: it has too many items"),
        ("#" * (MAX_FILE + 1), "it has more than 256,000 bytes"),
        ("a = " + "[" * 5000, "cannot be read"),
        ("a" + ".a" * 20_000 + " = 1", "line 1 has a key of more than 16 parts"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)) as told:
        written(tmp_path, text)
    assert str(tmp_path / "permissions.toml") in str(told.value)


def test_a_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no permissions file"):
        Permissions.load(tmp_path / "none.toml")


def test_what_others_can_write_is_not_believed(tmp_path: Path) -> None:
    path = file_of(tmp_path, "")
    path.chmod(0o666)
    with pytest.raises(SettingsError, match="others can write it"):
        Permissions.load(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="no ordinary file"):
        Permissions.load(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        Permissions.load(tmp_path)


def test_all_that_a_file_can_say(tmp_path: Path) -> None:
    permissions = written(
        tmp_path,
        """
        read_only = false
        [[rules]]
        allow = ["create_issue", "comment_*"]
        source = "mcp:github *"
        effect = ["write", "unknown"]
        principal = ["ann", "team-*"]
        arguments = { repo = "me/*", labels = ["bug", 7], "body.length" = { max = 10 }, draft = true }
        [[rules]]
        ask = "*"
        client = "some editor"
        [effects]
        "query_*" = "read"
        [caps]
        max_calls = 100
        writes_per_hour = 20
        [clients.ann]
        tools = "*_issue"
        max_calls = 200
        wall_s = 60
        [clients."*"]
        read_only = true
        max_runs_at_once = 1
        """,
    )
    assert [(rule.number, rule.verdict) for rule in permissions.rules] == [(1, "allow"), (2, "ask")]
    assert permissions.caps(Who("ann")) == Caps(max_calls=100, writes_per_hour=20, wall_s=60)
    assert permissions.caps(Who("eve")) == Caps(max_calls=100, writes_per_hour=20, max_runs_at_once=1)
    assert permissions.caps(Who("*")).max_runs_at_once == 1
    assert Caps(max_calls=7).settings(5, 30.0) == {"max_calls": 5, "wall_s": 30.0}
    assert Caps(max_calls=3, wall_s=1).settings(5, 30.0) == {"max_calls": 3, "wall_s": 1}
