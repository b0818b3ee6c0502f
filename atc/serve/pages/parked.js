// Runs that wait for approval, whoever began them: the calls of each are one form, and each call is decided apart.

const parkedRuns = new Map(); // by their ids, as the server shows them
const MOST_PARKED = 20; // runs that the page shows with their calls
let moreParked = 0;

/** Takes in what the server says of a run; one without calls waits no more. */
function parked(row) {
  if (row.calls.length || row.damage) parkedRuns.set(row.run_id, row);
  else parkedRuns.delete(row.run_id);
  moreParked = row.more ?? moreParked;
}

const isLate = (call) => call.until < Date.now() / 1000;
const undecided = (row) => row.calls.filter((call) => !call.decided);

/** What is told of runs that wait as of questions: one of each. */
const parkedQuestions = () => [...parkedRuns.values()].filter((row) => row.waits).map((row) => {
  const [first] = undecided(row);
  return [`parked ${first.digest}`, { key: `parked ${first.digest}`, tool: first.tool }];
});

/** The runs that wait, the latest first, as [key, make] of each. `made(row)`: what stands beside the task, and how the run goes on here. */
function parkedCards(made) {
  const rows = [...parkedRuns.values()].sort((one, other) => (one.run_id < other.run_id ? 1 : -1)).slice(0, MOST_PARKED);
  const state = (row) => JSON.stringify([row.run_id, row.damage, row.waits, row.left, row.here, row.calls.map((call) => [call.digest, call.decided, isLate(call)])]);
  return rows.map((row) => [`parked ${state(row)}`, () => parkedCard(row, made(row))]);
}

function parkedCard(row, { where, goOn }) {
  const id = encodeURIComponent(row.run_id), open = undecided(row), timely = open.filter((call) => !isLate(call));
  const decide = (decision, calls) => async () => {
    try {
      const now = await ask(`/runs/${id}/pending`, { decision, calls: calls.map(({ index, digest }) => ({ call: index, digest })) });
      say(calls.length > 1 ? `${plural(calls.length, "call")} ${SETTLED[decision]}` : SETTLED[decision]);
      parked(now);
    } catch (error) {
      parked(await ask(`/runs/${id}/pending`).catch(() => row)); // who was first is shown
      if (card.isConnected) drawAsks();
      throw error;
    }
    drawAsks();
    const list = byId("asks");
    if (!list.hidden) { list.tabIndex = -1; list.focus(); }
  };
  const name = `parked-${row.run_id}`;
  const acts = (calls, about, words) => (calls.length && may("approve") ? guardedActs(
    calls.some(isLate) || LIVE.no_yes ? null : doing(words("Approve"), "good", decide("approve", calls), about), doing(words("Deny"), "bad", decide("deny", calls), about)) : null);
  const call = (each) => el("li", { value: each.index },
    el("p", { id: `${name}-${each.index}` }, el("code", { class: "tool", text: each.tool }), el("span", { class: "chip", text: each.effect }), each.line ? el("span", { class: "faint", text: ` line ${each.line}` }) : null, each.within ? el("span", { class: "faint", text: ` within ${each.within}` }) : null,
      each.decided ? el("span", { class: `chip ${each.decided.yes ? "good" : "bad"}` }, `${each.decided.yes ? "approved" : "denied"} by ${each.decided.by}, `, since(each.decided.at)) : null),
    givenOf(each), each.cut || each.left_out ? whole(`/runs/${id}/pending/${each.index}`) : null,
    each.same_as ? el("p", { class: "note warn", text: each.same_as }) : null,
    each.changed.map((text) => el("p", { class: "note warn", text })), each.warnings.map((text) => el("p", { class: "note warn", text })),
    each.notes_left ? el("p", { class: "note warn", text: `${plural(each.notes_left, "note")} more: decide by \`atc runs approve\`, which shows them` }) : null,
    each.decided ? null : el("p", { class: "faint", text: isLate(each) ? `waited until ${moment(each.until)}: it is too late to approve it` : `waits until ${moment(each.until)}` }),
    each.decided || each.notes_left ? null : acts([each], `${name}-${each.index}`, (word) => word));
  const words = row.damage ? "the calls of this run cannot be read" : row.waits ? `${plural(row.waits, "call")} ${row.waits === 1 ? "waits" : "wait"} for approval` : "all calls are decided";
  const after = row.damage || timely.length ? null : el("p", { class: "acts" }, row.here && may("run") ? doing("Go on", "good", goOn, name) : "",
    el("span", { class: "faint" }, row.here && may("run") ? (open.length ? "what waited too long is asked about again" : "makes what was approved, and goes on") : ["to go on, where its tools are: ", el("code", { text: `atc resume ${row.run_id}` })]));
  const several = timely.filter((each) => !each.notes_left);
  const card = el("li", { class: "approval" }, el("p", { id: name }, el("span", { class: "mark warn", "aria-hidden": "true", text: "?" }), ` ${words} `, where || ""),
    row.damage ? el("p", { class: "note bad", text: row.damage }) : null,
    LIVE.no_yes && open.length && may("approve") ? el("p", { class: "note warn", text: LIVE.no_yes }) : null,
    row.waits ? doneAlready(row) : null,
    el("ol", { class: "form" }, row.calls.map(call)), row.left ? el("p", { class: "faint", text: `${plural(row.left, "call")} more, shown once these are decided` }) : null,
    several.length > 1 ? acts(several, name, (word) => `${word} ${row.left ? "these" : "all"} ${count(several.length)}`) : null, after);
  return card;
}
