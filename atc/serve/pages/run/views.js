// What happened, each in a card of its own, in order.

const OPEN_PROGRAMS = 6; // programs up to which all are open; of more the last is
const AROUND = 3, STRETCH = 12; // unchanged lines that stay about a change; lines without a call from which on they are folded
const MOST_LINES = 3000;

function card(item, kind, ...inside) {
  return el("section", { class: `card ${kind}`, id: item.id, "data-item": item.id }, ...inside);
}
function line(item, kind, sign, ...inside) {
  return el("div", { class: `event ${kind}`, id: item.id, "data-item": item.id }, el("span", { class: "mark", "aria-hidden": "true", text: sign }), el("div", {}, ...inside));
}

const VIEWS = {
  task(item) {
    const again = item.number > 1;
    return el("section", { class: again ? "turn" : "turn first", id: item.id, "data-item": item.id }, again ? el("h2", {}, el("span", { class: "faint", text: `Task ${item.number}` }), ` ${textOf(item.data.task)}`) : null);
  },
  resumed: (item) => line(item, "plain", "↻", `resumed ${moment(item.at)}: what succeeded is not done again`),
  applied: (item) => line(item, "plain", "↻", `the plan is applied ${moment(item.at)}: the program runs for real, and what it does is held to the plan`),
  sketch(item) {
    const { data } = item, tools = names(data.tools);
    const of = data.of && data.of > tools.length ? ` of ${count(data.of)}` : "";
    const called = new Set([...RUN.calls.values()].map((call) => call.tool));
    const layers = (data.layers || []).length > 1 ? ` in ${plural(data.layers.length, "layer")}` : "";
    const head = [el("span", { class: "tri", "aria-hidden": "true" }), el("span", { class: "title", text: "Tools offered" }),
      el("span", { class: "faint", text: `${count(tools.length)}${of}${layers}${data.sure === false ? " · not sure" : ""}` }), el("span", { class: "names", text: tools.slice(0, 12).join(", ") })];
    const [button, place] = opening(item.id, { class: "head stop" }, head, () => sketchDetails(data, called));
    return card(item, "sketch", el("h2", {}, button), place);
  },
  found: (item) => line(item, "plain", "⌕", "found for the next program: ", el("code", { text: names(item.data.found).join(", ") })),
  probed: (item) => line(item, "plain", "⌕", "probed ", el("code", { text: textOf(item.data.tool) }), item.data.learnt ? ": the shape of its answer is known now" : item.data.status === "ok" ? ": its answer showed nothing" : `: nothing is learnt (${textOf(item.data.status)})`),
  model(item) {
    if (item.inside) return el("div", { class: "gone", id: item.id, "data-item": item.id });
    return el("div", { class: "event modelled", id: item.id, "data-item": item.id }, modelLine(item));
  },
  stage: (item) => el("h2", { class: "divide", id: item.id, "data-item": item.id, text: item.data.new_request ? "The next task" : `Stage ${count(item.data.stage || 0)}: what was done so far is kept` }),
  layer: (item) => el("h2", { class: "divide", id: item.id, "data-item": item.id, text: `Step ${count(item.data.layer || 0)} of ${count((item.data.layers || []).length)}: ${names(item.data.tools).join(", ")}` }),
  question: (item) => line(item, "warn", "?", el("b", { text: "The program asks: " }), textOf(item.data.question)),
  banned: (item) => line(item, "warn", "⊘", textOf(item.data.words) || `${item.data.tool} broke and is not called again`),
  substituted: (item) => line(item, "plain", "⇄", el("code", { text: item.data.by }), " took the place of ", el("code", { text: item.data.tool })),
  answer: (item) => line(item, "good", "✓", el("b", { text: "Answer " }), noValue(item) ? NO_VALUE : textOf(item.data.answer) || briefText(item.data.value, 200)),
  ended: (item) => (item.data.status === "answered" ? el("div", { class: "gone", id: item.id, "data-item": item.id }) : line(item, statusOf(item.data.status || "?")[1], "■", `ended: ${statusOf(item.data.status || "?")[2]}`, ` · ${moment(item.at)}`)),
  damaged: (item) => line(item, "bad", "!", item.data.why || "damaged", item.data.was ? el("span", { class: "faint", text: ` (${item.data.was}, line ${item.n})` }) : null, raw(item)),
  unknown: (item) => line(item, "plain", "·", el("span", { class: "faint", text: `an event of an unknown kind: ${item.data.was || "?"}` }), raw(item)),
  program: programCard,
};
const raw = (item) => (item.data.value === null || item.data.value === undefined ? null : tree(item.data.value, item.n, null, false));

function modelLine(item) {
  const { data } = item, key = `m${item.id}`;
  const words = [el("span", { class: "mark model", "aria-hidden": "true", text: "✦" }), el("span", { class: "what" }, `model ${PURPOSES.get(data.purpose) || data.purpose || ""}`, data.cached ? el("span", { class: "chip", text: "cached" }) : null,
    data.problem ? el("span", { class: "chip bad", text: oneLine(textOf(data.problem), 80) }) : null), el("span", { class: "came faint", text: `${count(data.prompt_tokens || 0)} → ${count(data.completion_tokens || 0)} tokens` }), el("span", { class: "time", text: took(data.seconds) })];
  return opening(key, { class: "call stop model" }, words, () => el("div", { class: "details" }, data.notice ? el("p", { class: "note", text: textOf(data.notice) }) : "", tree(data.text ?? "", item.n, null, true, true),
    el("p", { class: "faint", text: `ended: ${data.finish_reason || "?"}` })));
}

const programTitle = (item) => (item.source ? `Program ${item.number}` : item.calls.length ? "Calls" : "No program");
function programCard(item) {
  const [sign, tone, words] = outcomeOf(item);
  const usually = RUN.programs.length <= OPEN_PROGRAMS || item === RUN.program || Boolean(item.running);
    const steps = item.before && item.before.source ? (item.steps ||= changes(item.before.source.split("\n"), item.source.split("\n"))) : null;
  const plus = steps ? steps.filter(([each]) => each === "+").length : 0, minus = steps ? steps.filter(([each]) => each === "−").length : 0;
  const seconds = item.ended && item.ended.seconds;
  const facts = [item.calls.length ? plural(item.calls.length, "call") : "", seconds ? took(seconds) : "", item.ended && item.ended.isolation].filter(Boolean).join(" · ");
  const head = [el("span", { class: "tri", "aria-hidden": "true" }), el("span", { class: "title", text: programTitle(item) }), el("span", { class: `badge ${tone}` }, el("span", { "aria-hidden": "true", text: sign }), ` ${words}`),
    steps ? el("span", { class: "delta" }, el("span", { class: "good", text: `+${plus}` }), " ", el("span", { class: "bad", text: `−${minus}` })) : null, el("span", { class: "faint", text: facts })];
  const [button, place] = opening(item.id, { class: "head stop" }, head, () => programBody(item, steps), null, usually);
  return card(item, `program is-${tone}`, el("h2", {}, button), place);
}

/** The lines of a program; under each its calls, findings and faults. */
function programBody(item, steps) {
  const at = new Map();
  const on = (number) => { if (!at.has(number)) at.set(number, { calls: [], notes: [] }); return at.get(number); };
  const now = coloured(item.source, RUN.tools), last = item.source ? now.length : 0;
  const place = (number) => (number >= 1 && number <= last ? number : 0);
  for (const call of item.calls) on(place(call.line)).calls.push(call);
  for (const each of item.findings) on(place(each.line)).notes.push(["warn", each.severity === "warning" ? "warning" : "finding", each]);
  for (const each of item.faults) on(place(each.line)).notes.push(["bad", each.tool ? `fault of ${each.tool}` : "fault", each]);
  const under = (number) => {
    const here = at.get(number);
    return here ? [here.calls.length ? callsOf(item, number, here.calls) : null, here.notes.map((note) => noteOf(item, number, ...note))] : [];
  };
  const rows = [];
  const before = item.before ? coloured(item.before.source, RUN.tools) : [];
  const all = (steps || now.map((_, index) => [" ", index])).slice(0, item.source ? MOST_LINES : 0);
  const stays = all.map(([sign, index]) => sign !== " " || at.has(index + 1));
  const near = (index) => { for (let step = -AROUND; step <= AROUND; step++) if (stays[index + step]) return true; return false; };
  const folds = !UI.whole.has(item.id) && (steps !== null || all.length > 80);
  for (let index = 0; index < all.length; index++) {
    let end = index;
    if (folds) while (end < all.length && !near(end)) end++;
    if (end - index >= STRETCH || (end > index && steps && end - index > 4)) {
      rows.push(stretch(item, end - index));
      index = end - 1;
      continue;
    }
    const [sign, number] = all[index];
    rows.push(codeLine(item, sign, number + 1, (sign === "−" ? before : now)[number]), ...(sign === "−" ? [] : under(number + 1)));
  }
  if (all.length < (steps || now).length && item.source) rows.push(el("p", { class: "faint", text: `${count((steps || now).length - all.length)} more lines are not shown` }));
  const cut = isObject(item.data.program) ? el("p", { class: "note", text: `the program is ${count(item.data.program.size)} characters long; its beginning is shown` }) : null;
  const rewrites = (item.data.rewrites || []).map(textOf).filter(Boolean);
  const printed = (name, field) => (item.ended && item.ended[field] ? el("section", { class: "part" }, el("h3", { text: name }), tree(item.ended[field], item.endedN, null, true, true)) : null);
  return [item.model ? el("div", { class: "modelled" }, modelLine(item.model)) : null, item.notes.map((text) => el("p", { class: "note warn", text: `run although: ${text}` })),
    rewrites.length ? el("p", { class: "note", text: `rewritten before it ran: ${rewrites.join("; ")}` }) : null,
    isObject(item.data.inputs) && item.data.inputs.size ? el("section", { class: "part" }, el("h3", { text: "Inputs" }), tree(item.data.inputs, item.n)) : null,
    rows.length ? el("div", { class: steps ? "code revised" : "code" }, rows) : null, cut, under(0), printed("Printed", "stdout"), printed("Printed as errors", "stderr"),
    item.ended && item.ended.detail ? el("p", { class: "note", text: textOf(item.ended.detail) }) : null].flat(2).filter((each) => each !== null && each !== undefined);
}

const SIGNS = { "+": "added: ", "−": "removed: ", " ": "" };
function codeLine(item, sign, number, pieces) {
  const code = pieces.map(([text, kind]) => (kind ? el("span", { class: kind, text }) : text));
  return el("div", { class: `ln ${sign === "+" ? "plus" : sign === "−" ? "minus" : ""}`, "data-k": sign === "−" ? null : `l${item.id}-${number}` },
    el("span", { class: "no", text: sign === "−" ? "" : String(number) }), el("span", { class: "sg", "aria-hidden": "true", text: sign }), SIGNS[sign] ? el("span", { class: "quiet", text: SIGNS[sign] }) : null, el("code", {}, code));
}
function stretch(item, lines) {
  const button = el("button", { class: "stretch stop", type: "button", text: `⋯ ${plural(lines, "line")}` });
  button.addEventListener("click", () => { UI.whole.add(item.id); redraw(item); });
  return button;
}
/** A finding or a fault; where it stands under its line, its sentence does not begin with that. */
function noteOf(item, under, tone, words, each) {
  const more = each.evidence || each.hint, message = textOf(each.message), where = `line ${under}: `;
  return el("div", { class: `finding ${tone}` }, el("span", { class: "label", text: words }), " ", el("span", { text: (under && message.startsWith(where) ? message.slice(where.length) : message) || each.kind || "" }),
    more ? el("div", { class: "faint" }, [each.evidence, each.hint].map(textOf).filter(Boolean).map((text) => el("p", { text }))) : null, each.traceback ? el("p", { class: "faint", text: `traceback: ${textOf(each.traceback)}` }) : null);
}
