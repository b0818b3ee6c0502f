// The list of runs: a window of rows is in the page, however many runs there are.

const ROW = 54, BESIDE = 12, PAGE = 200; // pixels of a row, rows drawn beyond the window, rows asked for at once
const waiting = new Map(); // questions of the server, by their keys
let rows = DATA.runs, shownRows = rows, more = Boolean(LIVE && LIVE.more), total = LIVE && LIVE.total, loading = null, active = 0, asked = 0, unread = (LIVE && LIVE.unread) || 0;

const STRANGE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;
/** A text from outside in one line, cut; what nobody would see in it is an escape. */
const seen = (text, most) => oneLine(String(text ?? "").slice(0, 8 * most), most).replace(STRANGE, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

function rowOf(row, index) {
  const money = typeof row.cost === "number" ? `${row.cost.toPrecision(3).replace(/\.?0+$/, "")} ${seen(row.currency, 8)}` : "";
  const sub = row.damage ? el("span", { class: "sub bad", text: seen(row.damage, 200) }) : el("span", { class: "sub", text: [row.answer ? seen(row.answer, 160) : "", seen(row.run_id, 40), seen(row.model, 40)].filter(Boolean).join("  ·  ") });
  const waits = row.status !== "needs_input" && (row.waits || [...waiting.values()].some((each) => each.run_id === row.run_id));
  const status = waits ? "waiting" : row.here && (row.status === "cut off" || row.status === "running") ? "running" : seen(row.status, 30);
  const calls = `${count(row.calls)}${row.revisions ? ` / ${count(row.revisions)}` : ""}`;
  const cells = [el("span", {}, badge(status), caveat(row)), el("span", { class: "about" }, el("span", { class: "task", text: seen(row.task, 200) || "(no task)" }), sub), el("span", { text: calls, title: `${plural(row.calls || 0, "call")}${row.replayed ? ` (and ${count(row.replayed)} replayed from the journal)` : ""}, ${plural(row.revisions || 0, "revision")}` }),
    el("span", { text: count(row.tokens) }), el("span", { text: money }), el("span", { text: typeof row.seconds === "number" ? took(row.seconds) : "" }), el("span", {}, since(row.began))];
  const link = el("a", { class: "run", href: LIVE ? LIVE.run + encodeURIComponent(row.run_id) : null, tabindex: "0", "data-index": index }, cells);
  link.addEventListener("focus", () => (active = index));
  return el("li", { "aria-setsize": more ? -1 : shownRows.length, "aria-posinset": index + 1 }, link);
}

let drawnFrom = -1, drawnTo = -1;
function draw(force = false) {
  const place = byId("scroll"), top = place.getBoundingClientRect().top;
  const from = Math.max(0, Math.min(shownRows.length, Math.floor(-top / ROW) - BESIDE)), to = Math.min(shownRows.length, Math.ceil((innerHeight - top) / ROW) + BESIDE);
  if (force || from !== drawnFrom || to !== drawnTo) {
    drawnFrom = from;
    drawnTo = to;
    place.style.setProperty("height", `${shownRows.length * ROW}px`);
    const list = byId("runs"), focused = list.contains(document.activeElement) && document.activeElement.dataset.index;
    list.style.setProperty("transform", `translateY(${from * ROW}px)`);
    list.replaceChildren(...shownRows.slice(from, to).map((row, at) => rowOf(row, from + at)));
    if (focused) list.querySelector(`[data-index="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    const left = Math.max(0, (total ?? 0) - shownRows.length);
    byId("matches").textContent = `${count(Math.max(shownRows.length, total ?? 0))}${more && !left ? "+" : ""} ${shownRows.length === 1 && !left ? "run" : "runs"}${unread ? ` · reads ${count(unread)} more …` : ""}`;
    byId("none").hidden = shownRows.length > 0 || loading !== null;
    byId("none").textContent = byId("search").value || byId("status").value ? "No run fits." : "There are no runs yet.";
  }
  if (more && to + 60 > shownRows.length) load(false);
  ready();
}

function taken(found) {
  more = found.more && found.runs.length > 0;
  total = found.total;
  unread = found.unread || 0;
  if (unread) setTimeout(again, 1000);
}

/** While the server reads runs for the first time: the same rows, with those that it has read since. */
async function again() {
  if (loading !== null) return;
  const mine = (loading = ++asked), given = { query: byId("search").value.trim(), status: byId("status").value, limit: Math.max(PAGE, Math.min(500, rows.length)) };
  const found = await ask(`/runs?${new URLSearchParams(given)}`).catch(() => null);
  if (mine !== loading) return;
  loading = null;
  if (found === null) return;
  rows = shownRows = found.runs;
  taken(found);
  draw(true);
}

/** Asks for rows: anew for another search, else those after the last. */
async function load(anew) {
  if (LIVE === null || (loading !== null && !anew)) return;
  const mine = (loading = ++asked);
  const given = new URLSearchParams({ query: byId("search").value.trim(), status: byId("status").value, limit: PAGE });
  if (!anew && rows.length) given.set("before", rows[rows.length - 1].run_id);
  try {
    const found = await ask(`/runs?${given}`);
    if (mine !== loading) return; // another search was begun
    rows = shownRows = anew ? found.runs : rows.concat(found.runs);
    taken(found);
    if (anew) scrollTo(0, 0);
  } catch (error) {
    more = false;
    say(error.message, "bad");
  }
  loading = null;
  draw(true);
}

let soon = 0;
function filter() {
  if (LIVE) {
    clearTimeout(soon);
    soon = setTimeout(() => load(true), 150);
    return;
  }
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean), status = byId("status").value;
  shownRows = rows.filter((row) => (!status || row.status === status) && words.every((word) => (row.words ||= [row.task, row.answer, row.run_id, row.model, row.status].join(" ").toLowerCase()).includes(word)));
  scrollTo(0, 0);
  draw(true);
}

function move(to) {
  if (!shownRows.length) return;
  active = Math.max(0, Math.min(shownRows.length - 1, to));
  const top = byId("scroll").getBoundingClientRect().top + scrollY + active * ROW;
  if (top < scrollY + 110) scrollTo(0, top - 110);
  else if (top + ROW > scrollY + innerHeight) scrollTo(0, top + ROW - innerHeight + 8);
  draw();
  document.querySelector(`[data-index="${active}"]`)?.focus({ preventScroll: true });
}
const step = (by) => () => move(document.activeElement.dataset.index === undefined ? active : active + by);

function drawAsks() {
  tell(new Map([...waiting, ...parkedQuestions()]));
  const where = (row) => el("a", { class: "faint", href: LIVE.run + encodeURIComponent(row.run_id), text: ` ${seen(row.task || row.run_id, 80)}` });
  const goOn = (row) => async () => location.assign(LIVE.run + encodeURIComponent((await ask(`/runs/${encodeURIComponent(row.run_id)}/resume`, {})).run_id));
  const asked = [...waiting.values()].map((row) => [row.key, () => approval(row, where(row))]), more = `${plural(moreParked, "run")} more ${moreParked === 1 ? "waits" : "wait"}: choose the status “waits for you”`;
  keep(byId("asks"), [...asked, ...parkedCards((row) => ({ where: where(row), goOn: goOn(row) })), ...(moreParked ? [[more, () => el("li", { class: "faint", text: more })]] : [])]);
  draw(true);
}
function changedRow(row) {
  const at = rows.findIndex((each) => each.run_id === row.run_id);
  if (at >= 0) rows[at] = row;
  else if (!byId("search").value && !byId("status").value) {
    const before = rows.findIndex((each) => each.run_id < row.run_id);
    rows.splice(before < 0 ? rows.length : before, 0, row);
    if (total !== null && total !== undefined) total++;
  } else return;
  draw(true);
}
function follow() {
  const dot = (words, tone) => { byId("live").textContent = words; byId("live").className = `livedot ${tone}`; };
  const heard = (act) => (event) => act(JSON.parse(event.data));
  listen(() => `${LIVE.api}/stream`, {
    open: () => { dot("live", "on"); waiting.clear(); parkedRuns.clear(); drawAsks(); },
    lost: () => dot("connecting …", "off"),
    on: {
      run: heard(changedRow),
      gone: heard(({ run_id: id }) => { rows = shownRows = rows.filter((row) => row.run_id !== id); draw(true); }),
      approval: heard((row) => { waiting.set(row.key, row); drawAsks(); }),
      settled: heard(({ key }) => { waiting.delete(key); drawAsks(); }),
      parked: heard((row) => { parked(row); drawAsks(); }),
    },
  });
}

const STATUSES = ["answered", "unsolved", "needs_input", "waiting", "planned", "failed", "tool_broken", "missing", "denied", "in_doubt", "budget", "running", "cut off", "damaged"];
byId("status").append(el("option", { value: "", text: "every status" }), ...STATUSES.map((value) => el("option", { value, text: statusOf(value)[2] })));
byId("status").addEventListener("change", filter);
byId("search").addEventListener("input", filter);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); move(0); }
  if (event.key === "Escape") { event.target.value = ""; filter(); event.target.blur(); }
});
byId("new").hidden = !may("run");
if (LIVE && LIVE.about) {
  const { model, endpoint, tools, writes, names: first, problem } = LIVE.about, more = tools - first.length;
  byId("about-model").append(problem ? el("span", { class: "bad", text: problem }) : `${model}${endpoint ? ` at ${endpoint}` : ""}`);
  byId("about-tools").append(`${count(tools)}, ${count(writes)} with effects: ${first.join(", ")}${more > 0 ? `, and ${count(more)} more` : ""}`);
}
byId("no").addEventListener("click", () => byId("begin").close());
byId("task-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.submitter || event.target.querySelector("[type=submit]"), answer = byId("answer").value.trim();
  button.disabled = true;
  byId("wrong").textContent = "";
  try {
    const begun = await ask("/tasks", { task: byId("task").value, ...(answer ? { answer } : {}), ...(byId("dry").checked ? { dry_run: true } : {}) });
    location.assign(LIVE.run + encodeURIComponent(begun.run_id));
  } catch (error) {
    byId("wrong").textContent = error.message;
  }
  button.disabled = false;
});
byId("task").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("task-form").requestSubmit(); });
keys({ j: step(1), k: step(-1), ArrowDown: step(1), ArrowUp: step(-1), g: () => move(0), G: () => move(shownRows.length - 1), t: () => (may("run") ? void byId("begin").showModal() : false) });
addEventListener("scroll", () => draw(), { passive: true });
addEventListener("resize", () => draw());
draw(true);
if (LIVE) follow();
if (unread) setTimeout(again, 1000);
