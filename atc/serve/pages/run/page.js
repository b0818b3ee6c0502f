// The page of a run: all of it is drawn from the run, and drawn again where the run changed.

const RUN = new Run();
const MOST = 20; // findings and calls that the outcome names
const AT_ONCE = 150; // parts that are drawn before the first paint

function replaced(item) {
  const old = byId(item.id), made = drawn(item);
  const held = old && old.contains(document.activeElement) && document.activeElement.closest("[data-k]");
  if (old) old.replaceWith(made);
  else byId("flow").append(made);
  if (held) made.querySelector(`[data-k="${CSS.escape(held.dataset.k)}"]`)?.focus({ preventScroll: true });
}
/** The picture of a part. Where its data are of another form than any version wrote, it says so, and the rest goes on. */
function drawn(item) {
  try {
    return VIEWS[item.type](item);
  } catch (error) {
    return line(item, "bad", "!", `this part cannot be drawn (${error.message})`, el("span", { class: "faint", text: ` line ${item.n}` }));
  }
}
function redraw(item) {
  UI.opened.set(item.id, true);
  replaced(item);
}

/** Takes an event in; one that cannot be taken in is shown as damaged. */
function added(event) {
  try {
    RUN.add(event);
  } catch (error) {
    RUN.on_damaged({ was: String(event && event.kind), why: error.message, value: null }, { n: (event && event.n) || 0, at: 0 });
  }
}

function draw() {
  if (RUN.status === "cut off") RUN.cutOff();
  const waiting = [...RUN.changed];
  RUN.changed.clear();
  waiting.sort((one, other) => RUN.items.indexOf(one) - RUN.items.indexOf(other));
  waiting.slice(0, AT_ONCE).forEach(replaced);
  try {
    around();
  } catch (error) {
    byId("left").append(el("p", { class: "note bad", text: `a part of this page cannot be drawn: ${error.message}` }));
  }
  const rest = waiting.slice(AT_ONCE);
  const goOn = () => {
    rest.splice(0, AT_ONCE).forEach(replaced);
    if (rest.length) requestAnimationFrame(goOn);
    else ready();
  };
  if (rest.length) requestAnimationFrame(goOn);
  else ready();
}

/** All that stands about the flow: it is small, and drawn each time. */
function around() {
  const first = RUN.tasks[0], task = RUN.tasks[RUN.tasks.length - 1];
  const data = task ? task.data : {};
  byId("task").textContent = first ? textOf(first.data.task) : "A run without a beginning";
  const end = RUN.end || {}, where = (RUN.programs.find((each) => each.ended && each.ended.isolation) || {}).ended;
  byId("meta").replaceChildren(...[data.model, data.endpoint ? `at ${data.endpoint}` : "", data.strategy && data.strategy !== "chain" ? `strategy ${data.strategy}` : "", LIVE ? since(RUN.begun) : moment(RUN.begun),
    end.isolation || (where && where.isolation)].filter(Boolean).map((each) => el("span", {}, each)), ...(task && task.applies ? [el("span", { class: "chip", text: "dry run, and its plan is applied" })] : data.dry_run ? [el("span", { class: "chip warn", text: "dry run: calls with effects are not made" })] : []),
    ...(data.images || []).filter((each) => each.name).map((each) => el("span", { text: `image ${each.name} (${count(each.bytes)} bytes)` })));
  byId("run_id").textContent = textOf(data.run_id) || (LIVE && LIVE.run_id) || "";
  const waits = !RUN.end && (pending.size || RUN.asked.size);
  byId("badge").replaceChildren(badge(waits ? "waiting" : RUN.status), ...caveat({ status: RUN.status, partial: end.incomplete, unresolved: task && task.answer && task.answer.data.unresolved, remarks: (end.caught || []).length }));
  figures(end);
  const picture = ribbon(RUN);
  byId("time").replaceChildren(...(picture ? [picture] : []));
  byId("outcome").replaceChildren(...outcome(task));
  keep(byId("asks"), asks());
  byId("left").replaceChildren(...(DATA.left_out || []).map((text) => el("p", { class: "note warn", text })),
    ...(RUN.damage.length ? [el("p", { class: "note bad", text: `${plural(RUN.damage.length, "line")} of the trace cannot be read: ${RUN.damage[0].why}` })] : []));
  byId("writing").replaceChildren(...(RUN.writing && RUN.status === "running" ? [el("span", { class: "spin", "aria-hidden": "true" }), `the model ${PURPOSES.get(RUN.writing.purpose) || RUN.writing.purpose} …`] : []));
  outline();
  about(data);
}

function figures(end) {
  const all = [...RUN.calls.values()], sum = (numbers) => numbers.reduce((total, each) => total + (each || 0), 0);
  const counts = { ...RUN.counts, cut_off: all.filter((call) => call.status === "cut_off").length }, calls = all.length;
  const model = sum(RUN.models.map(({ data }) => data.seconds)), tools = sum(all.map((call) => call.seconds));
  const notes = [["replayed", "info"], ["refused", "bad"], ["failed", "bad"], ["in_doubt", "warn"], ["planned", "warn"], ["pending", "warn"], ["cut_off", "warn"]].filter(([name]) => counts[name]).map(([name, tone]) => el("span", { class: tone, text: `${count(counts[name])} ${name.replace("_", " ")}` }));
  const figure = (name, value, ...more) => el("div", {}, el("dt", { text: name }), el("dd", {}, el("b", { text: value }), el("span", { class: "faint" }, ...more)));
  const revisions = RUN.programs.filter((each) => each.before && !(each.before.ended && each.before.ended.looked)).length;
  byId("figures").replaceChildren(
    figure("time", took(RUN.seconds) || "–", model || tools ? `model ${took(model)}, tools ${took(tools)}` : ""),
    figure("programs", count(RUN.programs.length), revisions ? plural(revisions, "revision") : ""),
    figure("calls", count(calls), notes.flatMap((each, at) => (at ? [", ", each] : [each]))),
    figure("tokens", count(RUN.tokens[0] + RUN.tokens[1]), RUN.tokens[0] + RUN.tokens[1] ? `${count(RUN.tokens[0])} read, ${count(RUN.tokens[1])} written` : ""),
    ...(end.cost ? [figure("cost", end.cost)] : []));
}

function outcome(task) {
  const end = RUN.end;
  if (task && task.answer && (!end || end.status === "answered")) {
    const { data, n } = task.answer, words = textOf(data.answer);
    if (noValue(task.answer)) return [el("h2", { class: "quiet", text: "Answer" }), el("p", { class: "answer", text: NO_VALUE }), ...wentOn(end), ...effects()];
    const same = data.value === data.answer || (!isObject(data.value) && String(data.value) === words);
    const isValue = isObject(data.value) && /^[[{]/.test(words); // nobody put it into words
    const told = wentOn(end);
    return [el("h2", { class: "quiet", text: "Answer" }), words && !isValue ? el("p", { class: told.length ? "answer unsure" : "answer", text: words }) : "", same ? "" : el("div", { class: "answered" }, tree(data.value === undefined ? null : data.value, n)), ...told, ...(end && end.incomplete ? effects() : [])];
  }
  if (!end) return [];
  const [, tone, words] = statusOf(end.status || "?"), fault = end.fault;
  const made = [el("h2", { class: "quiet", text: "How it ended" }), el("p", { class: `answer ${tone}` }, words)];
  if (end.question) made.push(el("p", { text: textOf(end.question) }));
  if (fault && !end.question) made.push(el("p", { text: textOf(fault.message) }), fault.hint ? el("p", { class: "note", text: textOf(fault.hint) }) : "");
  else if (!end.question && RUN.program && RUN.program.rejected && RUN.program.turn === RUN.tasks.length) made.push(...RUN.program.findings.slice(0, MOST).map((each) => noteOf(RUN.program, 0, "bad", "finding", each)));
  if (end.plan && !plan) made.push(el("h3", { text: end.plan.heading }), el("ol", { class: "plan" }, end.plan.calls.map((call) => el("li", { value: call.index }, el("code", { text: call.text }), el("span", { class: "faint", text: call.line ? ` line ${call.line}` : "" }),
    call.notes.length ? el("ul", { class: "plain faint" }, call.notes.map((text) => el("li", { text }))) : null))), ...[end.plan.stop, end.plan.unseen].filter(Boolean).map((text) => el("p", { class: "note warn", text })));
  return [...made, ...(end.kept ? [el("p", {}, "value: ", el("code", { text: end.kept }))] : []), ...wentOn(end), ...effects()];
}

/** What the calls with effects of the last task came to, each once: done, perhaps done, not done. What failed in a program that was revised is not told. */
function effects() {
  const found = new Map(), ranks = { ok: 3, replayed: 3, in_doubt: 2, refused: 1, failed: 1 };
  const calls = [...RUN.calls.values()].filter((call) => call.effect !== "read" && !["planned", "pending"].includes(call.status) && call.program.turn === RUN.tasks.length);
  const last = RUN.programs.filter((each) => each.calls.length).pop();
  for (const call of calls) {
    const rank = Object.hasOwn(ranks, call.status) ? ranks[call.status] : call.sent ? 2 : 1;
    if (rank === 1 && call.program !== last && call.cause !== "denied") continue;
    const key = `${call.tool} ${JSON.stringify(call.arguments)}`;
    if (!(found.get(key)?.rank >= rank)) found.set(key, { rank, call });
  }
  return [[3, "Done"], [2, "May have been done"], [1, "Not done"]].flatMap(([rank, title]) => {
    const calls = [...found.values()].filter((each) => each.rank === rank).map((each) => each.call);
    if (!calls.length) return [];
    const more = calls.length > MOST ? el("li", { class: "faint", text: `and ${count(calls.length - MOST)} more` }) : "";
    return [el("h3", { text: title }), el("ul", { class: "effects" }, calls.slice(0, MOST).map((call) => el("li", {}, mark(markOf(call)), " ", el("span", { class: "tool", text: call.tool }), el("span", { class: "given" }, "(", argumentsOf(call, 200), ")"),
      rank < 3 && call.error ? el("span", { class: "faint", text: ` ${oneLine(textOf(call.error), 140)}` }) : "")), more)];
  });
}

/** What a run caught and went on from; last, that its value rests on a part of it. */
function wentOn(end) {
  const texts = end ? [...(end.caught || []), end.incomplete].filter(Boolean) : [];
  return texts.map((text) => el("p", { class: "note warn", text: textOf(text) }));
}

function outline() {
  const parts = RUN.items.filter((item) => ["task", "sketch", "program", "stage", "layer", "question"].includes(item.type) && !(item.type === "task" && item.number === 1));
  const many = parts.length > 60 ? parts.filter((item) => item.type === "task" || item.type === "program").slice(-60) : parts;
  const named = { task: (item) => `Task ${item.number}`, sketch: () => "Tools offered", stage: () => "Next stage", layer: (item) => `Step ${item.data.layer}`, question: () => "Question",
    program: programTitle };
  byId("parts").replaceChildren(el("li", {}, el("a", { href: "#main", text: "Outcome" })), ...many.map((item) => {
    const [sign, tone] = item.type === "program" ? outcomeOf(item) : ["", ""];
    return el("li", {}, el("a", { href: `#${item.id}` }, named[item.type](item), sign ? el("span", { class: tone, "aria-hidden": "true", text: ` ${sign}` }) : ""));
  }));
}

let toldAbout = null;
function about(data) {
  if (toldAbout === data || !data.settings) return;
  toldAbout = data;
  const list = [["Settings", data.settings], ["Type of the answer", data.answer], ["Earlier tasks", data.earlier]].filter(([, node]) => node !== undefined && !(isObject(node) && node.size === 0));
  byId("about").replaceChildren(...list.map(([name, node]) => el("section", { class: "part" }, el("h3", { text: name }), tree(node, RUN.tasks[RUN.tasks.length - 1].n, null, false))),
    data.instructions ? el("section", { class: "part" }, el("h3", { text: "Instructions" }), tree(data.instructions, RUN.tasks[RUN.tasks.length - 1].n)) : "");
}

// -- search --------------------------------------------------------------------------------------------------------

let found = [], foundAt = -1;
function search() {
  const text = byId("search").value.trim().toLowerCase();
  found = [];
  foundAt = -1;
  const holds = (...texts) => texts.some((each) => each && each.toLowerCase().includes(text));
  if (text) for (const item of RUN.items) {
    if (found.length >= 5000) break;
    if (item.type !== "program") {
      if (item.data && holds(textOf(item.data.text), textOf(item.data.task), textOf(item.data.words), textOf(item.data.why), textOf(item.data.question), ...names(item.data.tools)) && !item.inside) found.push({ item });
      continue;
    }
    item.source.split("\n").forEach((each, at) => holds(each) && found.push({ item, line: at + 1 }));
    for (const call of item.calls) {
      call.words ||= `${call.tool} ${isObject(call.arguments) ? briefText(call.arguments, 300) : ""} ${briefText(call.value ?? null, 300)} ${textOf(call.error)}`.toLowerCase();
      if (call.words.includes(text)) found.push({ item, call });
    }
    for (const each of [...item.findings, ...item.faults]) if (holds(textOf(each.message))) found.push({ item });
  }
  byId("matches").textContent = !text ? "" : found.length ? plural(found.length, "match", "matches") : "nothing found";
}
function next(step) {
  if (!found.length) return false;
  foundAt = (foundAt + step + found.length) % found.length;
  byId("matches").textContent = `${count(foundAt + 1)} of ${count(found.length)}`;
  reveal(found[foundAt]);
}

/** Opens what hides a place, and puts the focus there. */
function reveal({ item, call, line: number }) {
  if (call) {
    const here = item.calls.filter((each) => each.line === call.line), key = `f${item.id}-${call.line}`;
    if (here.length > FOLDED) { UI.opened.set(key, true); UI.many.set(key, here.indexOf(call) + 1); }
  }
  if (number) UI.whole.add(item.id);
  if (item.type === "program") redraw(item);
  const at = byId(item.id);
  const place = call ? at.querySelector(`[data-k="${CSS.escape(keyOf(call))}"]`) : number ? at.querySelector(`[data-k="l${item.id}-${number}"]`) : at.querySelector(".stop") || at;
  if (!place) return;
  for (const old of document.querySelectorAll(".here")) old.classList.remove("here");
  place.classList.add("here");
  if (place.tabIndex < 0) place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "center" });
}

/** To what went wrong next, after where the focus is. */
function nextWrong() {
  const all = [];
  for (const item of RUN.programs) {
    for (const call of item.calls) if (["bad", "warn"].includes(markOf(call)[1])) all.push({ item, call });
    if (item.faults.length || item.findings.length) all.push({ item });
  }
  if (!all.length) return void say("nothing went wrong");
  nextWrong.at = ((nextWrong.at ?? -1) + 1) % all.length;
  reveal(all[nextWrong.at]);
}

function everything(open) {
  const left = [...document.querySelectorAll("#flow .head.stop")].filter((each) => (each.getAttribute("aria-expanded") === "true") !== open);
  const some = () => { // hundreds of programs at once would hold the page up
    for (const button of left.splice(0, 10)) if ((button.getAttribute("aria-expanded") === "true") !== open) button.click();
    if (left.length) requestAnimationFrame(some);
  };
  some();
}

byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); if (found.length) byId("search").blur(); }
  if (event.key === "Escape") { byId("search").value = ""; search(); byId("search").blur(); }
});
keys({
  n: () => next(1), N: () => next(-1), e: nextWrong, g: () => { scrollTo(0, 0); byId("main").focus({ preventScroll: true }); }, G: () => scrollTo(0, document.body.scrollHeight), o: () => everything(true), c: () => everything(false),
  Escape: () => { for (const old of document.querySelectorAll(".here")) old.classList.remove("here"); },
});
if (LIVE && LIVE.home) {
  byId("home").setAttribute("href", LIVE.home);
  byId("home").replaceChildren(el("span", { "aria-hidden": "true", text: "← " }), "All runs");
}
for (const event of DATA.events) added(event);
draw();
follow();
