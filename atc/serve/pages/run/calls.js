// Calls, each in a row that opens; many on one line of a program are folded, those that went wrong stay in sight.

const MARKS = {
  ok: ["✓", "good", "answered"], replayed: ["↺", "info", "replayed from the journal"], refused: ["✕", "bad", "refused"], failed: ["✕", "bad", "failed"],
  in_doubt: ["?", "warn", "in doubt"], planned: ["○", "warn", "planned, not made"], running: ["◐", "live", "running"],
  cut_off: ["…", "warn", "cut off"],
};
const FOLDED = 5; // calls on one line from which on they are folded
const ROWS = 50; // calls that are drawn at once
const WRONG = 3; // of folded calls, those that went wrong and stay in sight
const UI = { opened: new Map(), many: new Map(), whole: new Set(), kept: new Map() };

const markOf = (call) => (Object.hasOwn(MARKS, call.status) ? MARKS[call.status] : ["!", "warn", String(call.status)]);
const isOpen = (key, otherwise = false) => (UI.opened.has(key) ? UI.opened.get(key) : otherwise);
const keyOf = (call) => `c${call.index}-${call.program.id}`;

function mark([sign, tone, words]) {
  return el("span", { class: `mark ${tone}` }, el("span", { "aria-hidden": "true", text: sign }), el("span", { class: "quiet", text: `${words}: ` }));
}

/** A button that opens what stands under it. `make()` is called when it is opened. */
function opening(key, given, inside, make, changed = null, usually = false) {
  const open = isOpen(key, usually);
  const button = el("button", { type: "button", "aria-expanded": String(open), "data-k": key, ...given }, inside);
  const place = el("div", { class: "under", hidden: !open });
  if (open) place.append(...[make()].flat());
  button.addEventListener("click", () => {
    const now = place.hidden;
    UI.opened.set(key, now);
    button.setAttribute("aria-expanded", String(now));
    place.hidden = !now;
    if (now && !place.firstChild) place.append(...[make()].flat());
    if (changed) changed(now);
  });
  return [button, place];
}

function argumentsOf(call, room) {
  const node = call.arguments;
  if (!isObject(node) || !("o" in node)) return [];
  const pieces = [];
  let left = room;
  node.o.forEach(([name, value], at) => {
    if (left <= 0) return;
    const text = briefly(value, Math.min(left, 60));
    left -= name.length + 2 + text.reduce((sum, [each]) => sum + each.length, 0);
    pieces.push(at ? ", " : "", el("span", { class: "key", text: name }), "=", text.map(([each, kind]) => el("span", { class: kind, text: each })));
  });
  if (node.size > node.o.length || left <= 0) pieces.push(el("span", { class: "faint", text: ", …" }));
  return pieces.flat();
}

function resultOf(call) {
  if (call.status === "running") return [el("span", { class: "live", text: call.asked ? "waits for approval" : call.sent ? "sent …" : "…" })];
  if (call.status === "cut_off") return [el("span", { class: "warn", text: "cut off" })];
  if (call.error) return [el("span", { class: "bad", text: oneLine(textOf(call.error), 140) })];
  if (call.status === "pending") return [el("span", { class: "warn", text: "waits for approval, not made" })];
  if (call.status === "planned") return [el("span", { class: "warn", text: "planned, not made" })];
  return inBrief(call.value === undefined ? null : call.value, 110);
}

function callRow(call, longest) {
  const key = keyOf(call), [, tone] = markOf(call);
  const bar = el("span", { class: `bar ${tone}`, "aria-hidden": "true" });
  if (call.seconds && longest) bar.style.setProperty("--part", `${Math.max(2, (100 * call.seconds) / longest)}%`);
  const time = call.status === "replayed" ? "replayed" : ["planned", "pending", "running", "cut_off"].includes(call.status) ? "" : took(call.seconds);
  const inside = [mark(markOf(call)), el("span", { class: "ix", text: String(call.index) }),
    el("span", { class: "what" }, el("span", { class: "tool", text: call.tool }), el("span", { class: "given" }, "(", argumentsOf(call, 120), ")"),
      call.effect && call.effect !== "read" ? el("span", { class: "chip", text: call.effect }) : null, call.original ? el("span", { class: "chip", text: "repaired" }) : null),
    el("span", { class: "came" }, resultOf(call)), el("span", { class: "time" }, bar, el("span", { text: time }))];
  const [button, place] = opening(key, { class: `call stop is-${tone}` }, inside, () => detailsOf(call));
  return el("li", {}, button, place);
}

/** Where the arguments of a call came from, as the question about it said. */
const originsOf = (call) => ((call.origins || []).length ? el("ul", { class: "plain faint" }, call.origins.map(([name, text, part]) => el("li", {}, el("span", { class: "key", text: part || name }), " ", comesFrom(text)))) : null);

/** All of a call. What was opened in it stays open while the page goes on. */
function detailsOf(call) {
  const key = keyOf(call), kept = UI.kept.get(key);
  if (kept && kept.status === call.status) return kept.element;
  const titled = (words, ...inside) => el("section", { class: "part" }, el("h3", { text: words }), ...inside);
  const fact = (name, text) => (text ? el("div", {}, el("dt", { text: name }), el("dd", { text })) : "");
  const texts = [...(call.notes || []), ...(call.drift || []).map((text) => `the response is not as documented: ${textOf(text)}`)].map(textOf).filter(Boolean);
  const element = el("div", { class: "details" },
    texts.map((text) => el("p", { class: "note", text })), (call.warnings || []).map((text) => el("p", { class: "note warn", text: textOf(text) })),
    (call.careful || []).map((text) => el("p", { class: "note warn", text })),
    call.error ? titled("Error", tree(call.error, call.n, null, true, true), call.service_message ? [el("p", { class: "faint", text: "the service's own words" }), tree(call.service_message, call.n, null, true, true)] : "") : "",
    titled(call.original ? "Arguments, as they were sent" : "Arguments", tree(call.arguments === undefined ? null : call.arguments, call.n), originsOf(call)),
    call.original ? titled("Arguments, as the program gave them", tree(call.original, call.n)) : "",
    isObject(call.awaits) && call.awaits.size ? titled("Not known before other calls are made", tree(call.awaits, call.n)) : "",
    ["running", "cut_off"].includes(call.status) || call.error || ["planned", "pending"].includes(call.status) ? "" : titled("Value", tree(call.value === undefined ? null : call.value, call.n)),
    el("dl", { class: "facts" }, fact("outcome", markOf(call)[2]), fact("effect", call.effect), fact("line", call.line ? String(call.line) : ""), fact("within", textOf(call.within)), fact("took", call.seconds ? took(call.seconds) : ""),
      fact("approval", call.asked ? "was asked for" : ""), fact("status", call.error_status), fact("cause", call.cause), fact("page", call.page ? String(call.page) : ""),
      fact("stage", call.stage ? String(call.stage) : ""), fact("traceback", textOf(call.traceback))));
  UI.kept.set(key, { status: call.status, element });
  return element;
}

/** A small picture of many calls: how long each took, and which went wrong. */
function strip(calls) {
  const bars = Math.min(120, calls.length), longest = Math.max(...calls.map((call) => call.seconds || 0)) || 1;
  const made = [];
  for (let at = 0; at < bars; at++) {
    const some = calls.slice(Math.floor((at * calls.length) / bars), Math.floor(((at + 1) * calls.length) / bars));
    const wrong = some.find((call) => ["bad", "warn"].includes(markOf(call)[1])) || some[0];
    const tall = 3 + (13 * Math.max(...some.map((call) => call.seconds || 0))) / longest;
    made.push(svg("rect", { class: markOf(wrong)[1], x: at * 3, y: 16 - tall, width: 2, height: tall }));
  }
  return svg("svg", { class: "strip", viewBox: `0 0 ${bars * 3} 16`, width: bars * 3, height: 16, "aria-hidden": "true" }, ...made);
}

function foldedRow(key, calls, longest) {
  const tools = new Map(), outcomes = new Map();
  for (const call of calls) {
    tools.set(call.tool, (tools.get(call.tool) || 0) + 1);
    outcomes.set(call.status, (outcomes.get(call.status) || 0) + 1);
  }
  const wrong = calls.filter((call) => ["bad", "warn"].includes(markOf(call)[1]));
  const seconds = calls.reduce((sum, call) => sum + (call.seconds || 0), 0);
  const named = [...tools].slice(0, 3).map(([name, times]) => (tools.size > 1 ? `${name} × ${count(times)}` : name)).join(", ");
  const others = [...outcomes].filter(([status]) => status !== "ok").map(([status, times]) => el("span", { class: `chip ${markOf({ status })[1]}`, text: `${count(times)} ${status.replace("_", " ")}` }));
  const inside = [mark(markOf(wrong[0] || calls[calls.length - 1])), el("span", { class: "what" }, el("b", { text: plural(calls.length, "call") }), " ", el("span", { class: "tool", text: named }), others),
    el("span", { class: "came" }, strip(calls)), el("span", { class: "time" }, el("span", { text: took(seconds) }))];
  const list = () => pageOf(key, calls, longest);
  const seen = el("ul", { class: "rows" }, wrong.slice(0, WRONG).map((call) => callRow(call, longest)));
  seen.hidden = isOpen(key);
  const [button, place] = opening(key, { class: "call stop folded" }, inside, list, (open) => (seen.hidden = open));
  return el("li", {}, button, place, seen);
}

function pageOf(key, calls, longest) {
  const rows = el("ul", { class: "rows" });
  const upto = Math.min(calls.length, Math.max(ROWS, UI.many.get(key) || 0));
  rows.append(...calls.slice(0, upto).map((call) => callRow(call, longest)));
  if (upto === calls.length) return [rows];
  let shown = upto;
  const more = el("button", { class: "more stop", type: "button" });
  const label = () => (more.textContent = `${count(shown)} of ${count(calls.length)} calls · show ${count(Math.min(ROWS, calls.length - shown))} more`);
  more.addEventListener("click", () => {
    const next = calls.slice(shown, shown + ROWS).map((call) => callRow(call, longest));
    shown += next.length;
    UI.many.set(key, shown);
    rows.append(...next);
    if (shown < calls.length) label();
    else more.remove();
    next[0].querySelector(".stop").focus();
  });
  label();
  return [rows, more];
}

/** The calls of one line. */
function callsOf(program, line, calls) {
  const longest = Math.max(...program.calls.map((call) => call.seconds || 0));
  const rows = calls.length > FOLDED ? foldedRow(`f${program.id}-${line}`, calls, longest) : calls.map((call) => callRow(call, longest));
  return el("ul", { class: "rows calls", "aria-label": line ? `Calls of line ${line}` : "Calls" }, rows);
}
