// The events of a run, folded into what the page shows. One event after another, whether all are there or they come.

const PURPOSES = new Map([
  ["program", "writes a program"], ["attribute", "traces the fault"], ["answer", "puts the answer into words"],
  ["tools", "searches for tools"],
  ["step", "takes a step"], ["plan", "plans"], ["conclude", "draws the answer"],
]);

class Run {
  constructor() {
    this.items = []; // what happened, in order: {type, id, …}
    this.calls = new Map(); // by number
    this.programs = [];
    this.tasks = [];
    this.tools = new Set(); // names that were offered or called
    this.models = [];
    this.damage = [];
    this.asked = new Map(); // calls that wait for approval, by number
    this.counts = { ok: 0, replayed: 0, refused: 0, failed: 0, in_doubt: 0, planned: 0 };
    this.tokens = [0, 0];
    this.begun = this.last = 0;
    this.seconds = this.before = this.since = 0; // taken by all tasks and resumes, by those before, and when the last began
    this.line = 0;
    this.writing = null; // the model, while it is asked
    this.end = null;
    this.changed = new Set();
  }

  /** Takes an event; returns nothing. What it changed is in `changed`. */
  add(event) {
    event.n ||= event.line || 0;
    if (event.data === null || typeof event.data !== "object" || Array.isArray(event.data)) throw new TypeError("an event without data");
    if (event.n && event.n <= this.line) return; // sent twice
    this.line = Math.max(this.line, event.n);
    if (event.kind === "run_started") this.cutOff();
    if (event.at) { this.begun ||= event.at; this.last = Math.max(this.last, event.at); }
    if (event.at && this.since && event.kind !== "run_started") this.seconds = this.before + Math.max(0, event.at - this.since);
    const does = Run.prototype[`on_${event.kind}`];
    if (does) does.call(this, event.data, event);
    else this.item("unknown", event, { data: event.data });
  }

  item(type, event, fields) {
    const made = { type, id: `i${this.items.length}`, n: event.n, at: event.at, turn: this.tasks.length, ...fields };
    this.items.push(made);
    this.changed.add(made);
    return made;
  }
  /** What was under way when its process ended got no end; it had one all the same. */
  cutOff() {
    this.asked.clear();
    for (const call of this.calls.values())
      if (call.status === "running") { Object.assign(call, { status: "cut_off", endedAt: this.last }); this.changed.add(call.program); }
    for (const program of this.programs)
      if (program.running) { Object.assign(program, { running: false, endedAt: this.last, broken: true }); this.changed.add(program); }
  }
  get program() { return this.programs[this.programs.length - 1]; }
  get status() { return this.end ? this.end.status : LIVE && !LIVE.ended ? "running" : "cut off"; }

  on_run_started(data, event) {
    const before = this.tasks[this.tasks.length - 1];
    const again = before && before.data.turn === data.turn && textOf(before.data.task) === textOf(data.task);
    this.end = null;
    this.before = this.seconds;
    this.since = event.at;
    this.writing = null;
    this.asked.clear();
    if (again) {
      before.applies = Boolean(data.applies);
      return void this.item(before.applies ? "applied" : "resumed", event, {});
    }
    const item = this.item("task", event, { data, number: this.tasks.length + 1 });
    this.tasks.push(item);
    item.turn = this.tasks.length;
    this.answer = null;
  }
  on_tools_chosen(data, event) {
    for (const name of names(data.tools)) this.tools.add(name);
    this.item(data.found ? "found" : "sketch", event, { data });
  }
  on_tool_probed(data, event) { this.item("probed", event, { data }); }
  on_model_started(data, event) { this.writing = { purpose: data.purpose, at: event.at }; }
  on_model_ended(data, event) {
    this.writing = null;
    this.tokens[0] += data.prompt_tokens || 0;
    this.tokens[1] += data.completion_tokens || 0;
    const item = this.item("model", event, { data });
    this.models.push(item);
  }
  on_stage_started(data, event) { this.item("stage", event, { data }); }
  on_layer_started(data, event) { this.item("layer", event, { data }); }
  on_program_written(data, event) {
    const before = this.program && this.program.turn === this.tasks.length ? this.program : null;
    const item = this.item("program", event, {
      data, number: this.programs.length + 1, before, source: textOf(data.program).replace(/\n+$/, ""), calls: [], findings: [], faults: [], notes: [],
      began: 0, ended: null, rejected: false, events: [],
    });
    const written = this.items[this.items.length - 2];
    if (written && written.type === "model" && written.data.purpose === "program") { item.model = written; written.inside = true; }
    this.programs.push(item);
  }
  /** The program that calls and findings belong to; one without a text where nobody wrote one. */
  current(event) {
    const at = this.program;
    if (at && at.turn === this.tasks.length) return at;
    this.on_program_written({ program: "" }, event);
    return this.program;
  }
  on_findings(data, event) {
    const program = this.current(event);
    program.rejected = true;
    program.findings.push(...(data.findings || []).filter((each) => each.message !== undefined));
    this.changed.add(program);
  }
  on_program_started(data, event) {
    const program = this.current(event);
    program.began = program.broken ? event.at : program.began || event.at; // the time in which nothing ran is not its own
    Object.assign(program, { rejected: false, running: true, broken: false, endedAt: 0 });
    program.notes.push(...(data.warnings || []).map(textOf));
    this.changed.add(program);
  }
  on_program_ended(data, event) {
    const program = this.current(event);
    this.asked.clear();
    Object.assign(program, { ended: data, running: false, endedAt: event.at, endedN: event.n });
    this.changed.add(program);
  }
  call(data, event) {
    let call = this.calls.get(data.index);
    if (!call || (call.status !== "running" && call.status !== "cut_off" && event.kind !== "call_ended") || call.program !== this.current(event)) {
      call = { index: data.index, program: this.current(event), status: "running", began: event.at, n: event.n };
      this.calls.set(data.index, call);
      call.program.calls.push(call);
    }
    Object.assign(call, { status: "running" }, data);
    if (call.within) call.line = call.outer_line || 0; // of the program that is shown
    if (typeof call.tool === "string") this.tools.add(call.tool);
    this.changed.add(call.program);
    return call;
  }
  on_call_started(data, event) {
    this.asked.delete(data.index);
    this.call(data, event);
  }
  on_call_sent(data) {
    const call = this.calls.get(data.index);
    if (call) { call.sent = true; this.changed.add(call.program); }
  }
  on_approval_asked(data, event) {
    const { warnings, instead_of: instead, ...rest } = data;
    const call = this.call(rest, event);
    Object.assign(call, { asked: true, warnings: warnings || [], instead: instead || [] });
    this.asked.set(data.index, call);
  }
  on_call_ended(data, event) {
    this.asked.delete(data.index);
    const { asked, origins, careful } = this.calls.get(data.index) || {};
    const call = this.call(asked ? { ...data, origins, careful } : data, event); // the question said more
    call.n = event.n;
    call.endedAt = event.at;
    if (Object.hasOwn(this.counts, call.status)) this.counts[call.status]++;
    if (!call.program.began) call.program.began = call.began;
  }
  on_question_asked(data, event) { this.item("question", event, { data }); }
  on_fault(data, event) {
    const program = this.current(event);
    program.faults.push(data.fault || {});
    this.changed.add(program);
  }
  on_tool_banned(data, event) { this.item("banned", event, { data }); }
  on_substituted(data, event) { this.item("substituted", event, { data }); }
  on_answered(data, event) {
    this.answer = this.item("answer", event, { data });
    if (this.tasks.length) this.tasks[this.tasks.length - 1].answer = this.answer;
  }
  on_run_ended(data, event) {
    this.end = data;
    this.seconds = this.before + ((data.usage || {}).seconds || this.seconds - this.before);
    this.since = 0;
    this.writing = null;
    this.asked.clear();
    for (const program of this.programs) if (program.running) { program.running = false; this.changed.add(program); }
    this.item("ended", event, { data });
    if (this.tasks.length) this.tasks[this.tasks.length - 1].end = data;
  }
  on_damaged(data, event) {
    data.why ||= textOf(data.message);
    this.damage.push(data);
    this.item("damaged", event, { data });
  }
  on_unknown(data, event) { this.item("unknown", event, { data }); }
}

/** How a program went: mark, tone, words. */
function outcomeOf(program) {
  const fault = program.faults[program.faults.length - 1];
  if (program.running) return ["◐", "live", "running"];
  if (program.broken) return ["…", "warn", "cut off"];
  if (fault) return ["✕", "bad", fault.tool ? `fault of ${fault.tool}` : `fault: ${fault.kind || "unknown"}`];
  if (program.rejected && !program.source) return ["!", "warn", "the reply held no program"];
  if (program.rejected) return ["!", "warn", "not run: the check found something"];
  if (program.ended && program.ended.looked) return ["⌕", "good", `looked at ${program.ended.looked.map(textOf).join(", ")}`];
  if (program.ended && program.ended.kind === "finished") return ["✓", "good", "ran to its end"];
  if (program.ended) return ["○", "warn", `ended: ${program.ended.kind || "?"}`];
  return program.began ? ["…", "warn", "cut off"] : ["·", "", "not run"];
}

/** Whether an answer is what the calls with effects did, and no value. */
function noValue({ data, turn }) {
  const none = data.value === undefined || data.value === null;
  const acted = (call) => call.effect !== "read" && ["ok", "replayed"].includes(call.status) && call.program.turn === turn;
  return none && ["", "null"].includes(textOf(data.answer)) && [...RUN.calls.values()].some(acted);
}
const NO_VALUE = "done, as the calls say; they returned no value";
