"""Patterns over command lines and addresses are read as people mean them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.calls.permissions.meanings import how_read
from tests.calls.permissions.test_readings import allows, denies

ONE = {
    "git *": ["git status", "git show HEAD@{1}", "git log --format=%h%n -5", "git commit -m 'fix it'", "git show v1^"],
    "git log | head *": ["git log | head -5"],
    "SELECT *": ["SELECT a FROM b WHERE c > 5;", "SELECT a\nFROM b"],
    "*@good.example": ["ann@good.example", "ann+x@good.example"],
    "Ann <*@good.example>": ["Ann <ann@good.example>"],
    "https://*.good.example/*": ["https://a.good.example/x?y=z@w", "https://a.b.good.example/"],
    "*": ["git status; rm x", "Ann <ann@good.example>, b@c.example", "a | b $(c)"],
    "Weekly report *": ["Weekly report 5"],
    "me/*": ["me/a;b"],
}
MORE = {
    "git *": [
        *("git status; rm x", "git status && rm x", "git log | sh", "git log & rm x", "git a || rm x"),
        *("git log\nrm x", "git log $(id)", "git log `id`", "git log ${x}", "git log $x", "git log (id)"),
        *("git log <(id)", "git log > x", "git log\rrm x", "git log\u2028rm x", "git log\x85rm x"),
        *("git log \uff1b rm x", "git log %3B rm x", "git x;", "git log 2>&1", "git log -m 'a; b'", "git log <<x"),
        "git log %0a rm x",
    ],
    "git log | head *": ["git log | head 5 | sh", "git log | head 5; rm x"],
    "SELECT *": ["SELECT a; DROP TABLE b", "SELECT a; -- b"],
    "*@good.example": [
        *("eve@evil.example, ann@good.example", "eve@evil.example a@good.example"),
        *("eve@evil.example\na@good.example", "Eve <eve@evil.example> a@good.example"),
        *("mailto:eve@evil.example?cc=a@good.example", "@evil:a@good.example", "eve%evil.example@good.example"),
        *("evil.example!eve@good.example", '"eve@evil.example" <ann@good.example'),
    ],
    "Ann <*@good.example>": ["Ann <eve@evil.example>, Ann <ann@good.example>"],
    "https://*.good.example/*": [
        *("https://evil.example/.good.example/", "https://evil.example?.good.example/"),
        *("https://evil.example#.good.example/", "https://eve@evil.example:1/.good.example/"),
        *("https://a.good.example/ https://evil.example/.good.example/", "https://evil.example\\.good.example/"),
        "https://evil.example:80.good.example/",
    ],
}


def over(*patterns: str) -> str:
    return f"v = {json.dumps(patterns)}"


@pytest.mark.parametrize("pattern", ONE)
def test_a_rule_that_allows_fits_one_command_or_address(tmp_path: Path, pattern: str) -> None:
    for text in ONE[pattern]:
        assert allows(tmp_path, over(pattern), v=text), text
        assert allows(tmp_path, over("x *", pattern), v=text), text
    for text in MORE.get(pattern, ()):
        assert not allows(tmp_path, over(pattern), v=text), text
        assert not allows(tmp_path, over("x *", pattern), v=["git x", text]), text


def test_a_star_beside_other_patterns_stays_one(tmp_path: Path) -> None:
    assert allows(tmp_path, over("git *", "*"), v="git status; rm x")


WITHIN = {
    "*@evil.example": [
        *("a@evil.example", "A@EVIL.Example", "Ann <a@evil.example>", "b@c.d, a@evil.example", "a@evil.example;"),
        *("mailto:a@evil.example", "MAILTO:a@evil.example?subject=x", "mailto:b@c?cc=a@evil.example"),
        *("a%40evil.example", "b@c; a@evil.example", "b@c a@evil.example c@d", "b@c\na@evil.example\nc@d"),
        *("team: a@evil.example, b@c;", '"a b"@evil.example, b@c', "a@evil.example. ", "a @ evil.example"),
        *("a(x)@evil.example (y)", "'a@evil.example'", "a%evil.example@relay.example"),
        *("evil.example!a@relay.example", "<@relay:a@evil.example>", '["a@evil.example"]', "x <sip:a@evil.example>"),
        *("a@e\u200bvil.example, b@c", "a@evil\uff0eexample, b"),
    ],
    "a@evil.example": ["a+x@evil.example", '"a"@evil.example', "A <A@evil.example>"],
    "/etc/*": [
        *("file:///etc/x", "file:/etc/x", "FILE://localhost/etc/x", "file://///etc/x", "file%3A///etc/x"),
        *("x:file:///etc/x", "/home/a, /etc/x", "file:///home/../etc/x", "/home/a\n/etc/x", "'/etc/x'"),
        *("file:\\\\etc\\x", "/home/a;/etc/x", "/proc/self/root/etc/x"),
    ],
    "https://evil.example/*": [
        *("HTTPS://EVIL.example/x", "https://me@evil.example/x", "https://evil.example:443/x"),
        *("https://evil.example./x", "https://evil.example", "https:\\\\evil.example\\x"),
        *("see https://evil.example/x, please", "https:/evil.example/x"),
    ],
    "rm *": [
        *("rm -rf /", "git log; rm x", "git log && rm x", "ls | rm x", "$(rm x)", "`rm x`", "sudo rm x", "/bin/rm x"),
        *("RM x", "sh -c 'rm x'", "env A=b rm x", "A=b rm x", "'rm' x", "r\\m x", "rm\tx", "find . -exec rm {} +"),
        *("xargs rm x", "$(echo rm) x", "$x y", "echo cm0= | base64 -d | sh", "bash", "rm${IFS}x", "{ rm x; }"),
        *(">a rm x", "/bin/r? x", "{rm,x}", "if true; then rm x; fi", "git log\nrm x", "C:\\bin\\rm.exe x"),
        f"sudo {'-a ' * 60}rm x",
        "(rm x)",
    ],
}
OTHERS = {
    "*@evil.example": ["a@good.example", "evil.example", "a@evil.example.org", "a@notevil.example", "b@c, c@d"],
    "/etc/*": ["file:///home/etc/x", "/home/a, /tmp/etc", "https://x.example/etc/y"],
    "https://evil.example/*": [
        *("https://good.example/evil.example/", "https://evil.example.org/", "https://a@good.example/"),
    ],
    "rm *": [
        *("git rm x", "git log; git rm x", "echo 'rm x'", "sudo git status", "rmdir x", "git show HEAD@{1}"),
        "ls 2>&1",
    ],
}


@pytest.mark.parametrize("pattern", WITHIN)
def test_a_rule_that_denies_fits_what_a_text_has_within(tmp_path: Path, pattern: str) -> None:
    for text in WITHIN[pattern]:
        assert denies(tmp_path, over(pattern), v=text), text
        assert denies(tmp_path, over(pattern), v=["x", text]), text
    for text in OTHERS.get(pattern, ()):
        assert not denies(tmp_path, over(pattern), v=text), text


@pytest.mark.parametrize(
    ("pattern", "allow", "deny"),
    [
        ("git *", "one command", "each command"),
        ("bash -c *", "every command", "each command"),
        ("git*", "several commands", ""),
        ("SELECT *", "one statement", ""),
        ("*@x.example", "one address", "each address"),
        ("https://x.example/*", "one URL", "each URL"),
        ("*", "", ""),
        ("me/*", "", ""),
        ("main", "", ""),
    ],
)
def test_how_a_pattern_is_read_is_said(pattern: str, allow: str, deny: str) -> None:
    for wanted, is_allowed in ((allow, True), (deny, False)):
        told = how_read(pattern, allows=is_allowed)
        assert bool(told) is bool(wanted)
        assert wanted in told
