"""The benchmark of adapters, on a toy."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.retrieval.adapter import Ask, both_kinds, learnt, ranked, report
from tests.support.ranking import index, pairs


def test_hidden_tools_teach_nothing_and_are_asked_apart() -> None:
    asks = [Ask(each.query, frozenset(each.gold), number % 5 == 0) for number, each in enumerate(pairs())]
    hidden = {id for each in asks if each.hidden for id in each.gold}
    assert 0 < len(hidden) < 10
    searched = index()
    adapter, facts = learnt(searched, asks)
    assert facts["tools"] == 10 - len(hidden)
    assert learnt(searched, asks, 3)[1]["kept"] is False
    rows = both_kinds("toy", searched, adapter, asks)
    assert [row.kind for row in rows] == ["seen tools", "unseen tools"]
    assert rows[0].hybrid == ranked(searched, [each for each in asks if each.held_out and not each.hidden])
    text = report({"trainings": {"toy": facts}, "rows": [asdict(rows[0])], "elsewhere": [], "curves": [], "speed": {}})
    assert "| toy | seen tools |" in text
