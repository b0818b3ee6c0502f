// The plan of a dry run that may be applied: all of its calls are one form, and one yes is for all of it.

let plan = null; // as the server shows it; null until it was told
let told = false; // whether the server said how this run stands

/** Takes in what the server says of the plan; one without calls cannot be applied. */
function planned(row) {
  plan = row.calls.length || row.damage || row.applied ? row : null;
}

const byWhom = ({ by, at }) => ["the plan was applied: ", `yes by ${by}, `, since(at)];

/** `apply(row)`: what its button does. */
function planCard(row, apply) {
  const id = encodeURIComponent(row.run_id), name = `plan-${row.run_id}`, late = isLate(row);
  if (row.damage) return el("li", { class: "approval" }, el("p", { text: "the plan of this run cannot be read" }), el("p", { class: "note bad", text: row.damage }));
  if (row.applied) return el("li", { class: "approval quietly" }, el("p", { class: "acts" }, byWhom(row.applied)));
  const note = (text) => el("p", { class: "note warn", text });
  const call = (each) => el("li", { value: each.index },
    el("p", {}, el("code", { class: "tool", text: each.tool }), el("span", { class: "chip", text: each.effect }), each.line ? el("span", { class: "faint", text: ` line ${each.line}` }) : null, each.within ? el("span", { class: "faint", text: ` within ${each.within}` }) : null),
    givenOf(each), each.cut || each.left_out ? whole(`/runs/${id}/plan/${each.index}`) : null,
    each.warnings.map(note), each.notes.map((text) => el("p", { class: "faint", text })),
    each.notes_left ? note(`${plural(each.notes_left, "warning")} more`) : null);
  const can = row.digest && !late && row.here && may("run") && !LIVE.no_yes;
  const words = late ? "it is too late to apply it: make a new dry run" : can ? `makes these calls, in this order, and no other; ${row.began ? "reads are answered as they were" : "all is read again"}`
    : [row.here && !row.digest ? "not all of it is shown here: " : row.here ? "to apply it: " : "to apply it, where its tools are: ", el("code", { text: `atc runs apply ${row.run_id}` })];
  return el("li", { class: "approval" }, el("p", { id: name }, el("span", { class: "mark warn", "aria-hidden": "true", text: "○" }), ` ${row.heading} `),
    row.goes_on ? el("p", { class: "note", text: "it was begun to be applied, and did not come to its end: what is done is not done again" }) : null, doneAlready(row),
    el("ol", { class: "form" }, row.calls.map(call)), row.left ? el("p", { class: "faint", text: `${plural(row.left, "call")} more` }) : null,
    row.stop ? note(row.stop) : null, row.unseen ? note(row.unseen) : null,
    LIVE.no_yes && row.here && may("approve") ? note(LIVE.no_yes) : null,
    can ? guardedActs(doing("Apply", "good", apply, name)) : null, el("p", { class: "faint" }, words),
    late ? null : el("p", { class: "faint", text: `may be applied until ${moment(row.until)}` }));
}
