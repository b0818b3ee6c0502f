"use strict";
// What the pages share. Everything that comes from outside becomes a text node: no markup is ever made of text.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `given`: class, text, on (listeners), and attributes by their names. */
function el(tag, given = {}, ...children) {
  const made = given.svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false || name === "svg") continue;
    if (name === "text") made.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
const svg = (tag, given, ...children) => el(tag, { ...given, svg: true }, ...children);
const byId = (id) => document.getElementById(id);

const count = (number) => (typeof number === "number" ? number.toLocaleString("en-US") : "0");
const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many || `${one}s`}`;

/** Seconds in words that are easily compared. */
function took(seconds) {
  if (typeof seconds !== "number") return "";
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 0.9995) return `${seconds < 0.00995 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
function moment(at) {
  if (!at) return "";
  const date = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

const clock = (at) => moment(at).slice(11);
/** How long ago a moment was, in words; its day where that is a week or more. */
function ago(at) {
  const minutes = Math.max(0, Date.now() / 1000 - at) / 60;
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${Math.floor(minutes)} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  const days = Math.floor(minutes / 60 / 24);
  return days < 7 ? plural(days, "day") + " ago" : moment(at).slice(0, 10);
}
/** A moment as how long ago it was, with the exact time as its title. */
function since(at) {
  return at ? el("time", { datetime: new Date(at * 1000).toISOString(), title: moment(at), "data-at": at, text: ago(at) }) : "";
}
/** How long a question still waits: until what time, and how long that is. */
const left = (until) => {
  const seconds = Math.max(0, Math.round(until - Date.now() / 1000));
  return `waits until ${clock(until)} (${seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`} left), then it is a no`;
};
/** Writes anew what changes with time alone. */
function tick() {
  for (const each of document.querySelectorAll("[data-at], [data-until]")) {
    const text = each.dataset.at ? ago(Number(each.dataset.at)) : left(Number(each.dataset.until));
    if (each.textContent !== text) each.textContent = text;
  }
}
setInterval(tick, 1000);

/** A text field of an event: whole, or the node of one that is cut. */
const textOf = (field) => (typeof field === "string" ? field : field && typeof field.t === "string" ? `${field.t}…` : "");
/** The names of a list of names; what else stands there says how many more there are. */
const names = (field) => (Array.isArray(field) ? field.filter((name) => typeof name === "string") : []);
const oneLine = (text, most) => {
  const line = text.slice(0, 4 * most).replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most)}…` : line;
};

const STATUS = new Map([
  ["answered", ["✓", "good", "answered"]],
  ["planned", ["○", "warn", "planned"]],
  ["running", ["◐", "live", "running"]],
  ["waiting", ["?", "warn", "waits for you"]],
  ["needs_input", ["?", "warn", "waits for your answer"]],
  ["in_doubt", ["?", "warn", "in doubt"]],
  ["budget", ["✕", "bad", "budget used up"]],
  ["denied", ["✕", "bad", "not approved"]],
  ["missing", ["✕", "bad", "something is missing"]],
  ["tool_broken", ["✕", "bad", "a tool is broken"]],
  ["cut off", ["…", "warn", "cut off"]],
  ["damaged", ["!", "bad", "damaged"]],
]);
/** Mark, tone and words of a run's status. */
const statusOf = (status) => STATUS.get(status) || ["✕", "bad", status];
function badge(status) {
  const [mark, tone, words] = statusOf(status);
  return el("span", { class: `badge ${tone}` }, el("span", { "aria-hidden": "true", text: mark }), ` ${words}`);
}

/** What else there is to know of a run that answered: that it did only a part, a warning, or how many remarks there are. */
function caveat({ status, partial, unresolved, remarks }) {
  if (status !== "answered" || !(partial || remarks)) return [];
  return [" ", el("span", { class: "chip warn", text: partial ? "incomplete" : unresolved ? "warning" : plural(remarks, "remark") })];
}

/** Says a sentence to whoever listens rather than looks, and shows it for a while. */
let saidUntil = 0;
function say(words, tone = "") {
  const place = byId("said");
  place.textContent = words;
  place.className = `said ${tone}`;
  clearTimeout(saidUntil);
  saidUntil = setTimeout(() => (place.textContent = ""), 6000);
}

/** All that was known at first is drawn. */
function ready() {
  if (document.body.dataset.ready) return;
  document.body.dataset.ready = "yes";
  performance.mark("ready");
}

const TITLE = document.title;
const DATA = JSON.parse(byId("data").textContent);
const LIVE = DATA.live;
const may = (right) => LIVE !== null && Array.isArray(LIVE.rights) && LIVE.rights.includes(right);

/** Asks the server; raises an Error with its own sentence where it refuses. */
async function ask(path, body) {
  const given = { credentials: "same-origin", headers: { ...LIVE.headers } };
  if (body !== undefined) {
    given.method = "POST";
    given.headers["Content-Type"] = "application/json";
    given.body = JSON.stringify(body);
  }
  const reply = await fetch(LIVE.api + path, given);
  if (reply.ok && (reply.headers.get("Content-Type") || "").startsWith("text/plain")) return reply.text();
  const found = await reply.json().catch(() => null);
  if (!reply.ok) {
    const why = found && found.error && found.error.message;
    throw Object.assign(new Error(why || `the server answered ${reply.status}`), { found });
  }
  return found;
}

/** A button whose work may fail: it says so, and cannot be pressed twice. `about`: the id of what describes it. */
function doing(words, tone, act, about = null) {
  const button = el("button", { class: `act ${tone}`, type: "button", "aria-describedby": about, text: words });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await act();
    } catch (error) {
      say(error.message, "bad");
      button.disabled = false;
    }
  });
  return button;
}

/** Listens to server-sent events, and again when the connection broke. `address()`: where, each time anew. */
function listen(address, heard) {
  let source = null, closed = false, again = 0;
  const open = () => {
    source = new EventSource(address());
    source.onopen = () => heard.open && heard.open();
    for (const [name, act] of Object.entries(heard.on)) source.addEventListener(name, act);
    source.onerror = () => {
      if (closed) return;
      if (heard.lost) heard.lost();
      source.close();
      clearTimeout(again);
      again = setTimeout(open, 2000);
    };
  };
  open();
  return () => { closed = true; clearTimeout(again); source.close(); };
}

const STILL_MS = 600; // for so long a question stands still before a pointer may settle it
let moved = 0;

/** Puts [key, make] pairs in a list: what stays is not made again, so that nothing that was opened or typed is lost. */
function keep(place, wanted) {
  const there = new Map([...place.children].map((each) => [each.dataset.key, each])), names = new Set(wanted.map(([key]) => key));
  for (const [key, old] of there) if (!names.has(key)) { old.remove(); moved = performance.now(); }
  let at = place.firstChild;
  for (const [key, make] of wanted) {
    const card = there.get(key) || make();
    if (card === at) { at = at.nextSibling; continue; }
    card.dataset.key = key;
    place.insertBefore(card, at);
    moved = performance.now();
  }
  place.hidden = !wanted.length;
}
const SETTLED = { approve: "approved", deny: "denied", late: "nobody answered in time", ended: "the run or its server has ended" };

const known = new Set(); // questions that a reader was told of
/** Tells of a question that has come, once; the title of the page counts those that wait. */
function tell(waiting) {
  document.title = `${waiting.size ? `(${waiting.size}) ` : ""}${TITLE}`;
  for (const { key, tool } of waiting.values()) {
    if (!known.has(key)) say(may("approve") ? `${tool} waits for your approval` : `${tool} waits for approval`);
    known.add(key);
  }
}

/** Where an argument, or a part of it, comes from. */
const comesFrom = (text, part) => [part ? `${part} ` : "", el("span", { "aria-hidden": "true", text: "← " }), el("span", { class: "quiet", text: "from " }), text];
/** What a run did before the call that it asks about. */
function doneAlready(row) {
  if (!(row.done || []).length) return null;
  const before = row.done_before ? el("li", { class: "faint", text: plural(row.done_before, "earlier call") }) : null;
  return el("div", { class: "note" }, "done already:", el("ul", {}, before, row.done.map((text) => el("li", {}, el("code", { text })))));
}

/** A question that waits for approval: what would be called, and the two ways to settle it. */
function approval(row, where) {
  const settle = (decision) => async () => {
    try {
      const { decision: counted } = await ask(`/approvals/${encodeURIComponent(row.key)}`, { decision });
      say(SETTLED[counted] || counted);
    } catch (error) {
      const first = error.found && error.found.decision;
      if (!first) throw error;
      say(`another page was first: ${SETTLED[first] || first}`, "bad");
    }
    const list = card.parentElement, held = card.contains(document.activeElement) || document.activeElement === document.body;
    card.remove();
    moved = performance.now(); // what stands in its place now was not what the reader pressed
    if (held && list) { list.tabIndex = -1; list.focus(); }
  };
  const about = `asks-${row.key}`;
  const card = el("li", { class: "approval", "data-key": row.key },
    el("p", { id: about }, el("span", { class: "mark warn", "aria-hidden": "true", text: "?" }), " make this call? ", el("code", { class: "tool", text: row.tool }),
      el("span", { class: "chip", text: row.effect || "write" }), where || ""),
    row.description ? el("p", { class: "faint", text: row.description }) : null,
    givenOf(row),
    row.cut || row.left_out ? whole(`/approvals/${encodeURIComponent(row.key)}`) : null,
    row.in_doubt ? el("p", { class: "note warn", text: "the same was asked of this tool before, and nobody knows whether it was done" }) : null,
    row.repeats ? el("p", { class: "note warn", text: `run ${row.repeats} did the same before` }) : null,
    row.same_as ? el("p", { class: "note warn", text: row.same_as }) : null,
    (row.warnings || []).map((text) => el("p", { class: "note warn", text })),
    (row.instead_of || []).length ? el("p", { class: "note warn", text: `in place of ${row.instead_of.join(", ")}, which failed` }) : null,
    doneAlready(row),
    may("approve") ? guardedActs(doing("Approve", "good", settle("approve"), about), doing("Deny", "bad", settle("deny"), about)) : null,
    row.until ? el("p", { class: "faint", role: "timer", "data-until": row.until, text: left(row.until) }) : null);
  return card;
}

/** Buttons that settle a question: a pointer is held back while what stands there has just changed. */
function guardedActs(...buttons) {
  const still = (event) => {
    if (!event.detail || performance.now() - moved > STILL_MS) return; // a key is pressed on what has the focus
    event.stopImmediatePropagation();
    say("the questions have just changed: look once more, then press");
  };
  const acts = el("p", { class: "acts" }, buttons);
  acts.addEventListener("click", still, true);
  return acts;
}

/** The arguments of a call that is asked about, each with where it comes from, behind what to look at before approval. */
function givenOf(row) {
  const given = Array.isArray(row.arguments) ? row.arguments : [["", String(row.arguments ?? "")]];
  const from = (name) => (row.origins || []).filter(([of]) => of === name).map(([, text, part]) => el("span", { class: "from" }, comesFrom(text, part)));
  return [(row.careful || []).map((text) => el("p", { class: "note warn", text })), given.length ? el("dl", { class: "given" }, given.map(([name, text]) => [el("dt", { text: name || "arguments" }), el("dd", {}, text, " ", from(name))])) : null,
    row.left_out ? el("p", { class: "faint", text: `${plural(row.left_out, "argument")} more` }) : null];
}

/** A button that shows the arguments of a question whole. `path`: where they are. */
function whole(path) {
  const place = el("div", {}), button = el("button", { class: "more stop", type: "button", text: "show all of it" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { text } = await ask(path);
      place.replaceChildren(el("pre", { class: "long", tabindex: "0", "aria-label": "All arguments", text }));
    } catch (error) {
      button.disabled = false;
      say(error.message, "bad");
    }
  });
  place.append(button);
  return place;
}

/** Keys that move among what can be opened. `more`: other keys, each with what it does. */
function keys(more) {
  const stops = () => [...document.querySelectorAll(".stop")].filter((each) => each.offsetParent !== null);
  const move = (step) => {
    const all = stops(), at = all.indexOf(document.activeElement);
    const from = at < 0 ? all.findIndex((each) => each.getBoundingClientRect().top > 60) - (step > 0 ? 1 : 0) : at;
    const to = all[Math.max(0, Math.min(all.length - 1, from + step))];
    if (to) { to.focus({ preventScroll: true }); to.scrollIntoView({ block: "nearest" }); }
  };
  const opened = (open) => {
    const at = document.activeElement;
    if (at.getAttribute("aria-expanded") !== String(!open)) return false;
    at.click();
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (document.querySelector("dialog[open]")) return;
    if (inField) return;
    const does = more[event.key] || { j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
      ArrowRight: () => opened(true), ArrowLeft: () => opened(false), "/": () => byId("search").focus(),
      "?": () => byId("keys").showModal() }[event.key];
    if (does && does() !== false) event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-opens]"))
    button.addEventListener("click", () => byId(button.dataset.opens).showModal());
  for (const dialog of document.querySelectorAll("dialog"))
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
