// A run that goes on: its events as they come, and what a reader may do about it.

const pending = new Map(); // questions of the server about calls of this run, by their keys
let can = []; // of stop, resume, reply: what the server would do now
let deaf = null; // ends the listening

function follow() {
  if (LIVE === null) return;
  if (deaf) deaf();
  const dot = (words, tone) => { byId("live").textContent = words; byId("live").className = `livedot ${tone}`; };
  const end = (words) => { deaf(); deaf = null; LIVE.ended = true; dot(words, ""); later(); };
  const heard = (act) => (event) => { act(JSON.parse(event.data)); later(); };
  deaf = listen(() => `${LIVE.api}/runs/${encodeURIComponent(LIVE.run_id)}/events?after=${Math.max(RUN.line, LIVE.after || 0)}`, {
    open: () => { dot("live", "on"); pending.clear(); parkedRuns.clear(); plan = null; later(); }, // those that still wait are told again
    lost: () => dot("connecting …", "off"),
    on: {
      message: heard(added),
      state: heard((state) => {
        can = Array.isArray(state.can) ? state.can : [];
        LIVE.ended = !state.here && state.status !== "running";
        told = true;
      }),
      approval: heard((row) => pending.set(row.key, row)),
      settled: heard(({ key }) => pending.delete(key)),
      parked: heard(parked),
      plan: heard(planned),
      end: () => end(""),
      gone: () => end("deleted"),
      failed: (event) => { end(""); say(JSON.parse(event.data).message, "bad"); },
    },
  });
}

let drawing = 0;
/** Draws soon: of many events that come at once, the picture changes once. */
function later() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => { drawing = 0; draw(); });
}

const drawAsks = later; // they are drawn with the rest

/** What waits for the reader: calls to approve, a question to answer, a run to stop or to go on with; [key, make] of each. */
function asks() {
  tell(new Map([...pending, ...parkedQuestions()]));
  const id = LIVE && encodeURIComponent(LIVE.run_id);
  const resume = (body) => async () => { await ask(`/runs/${id}/resume`, body()); can = []; say("resumed"); LIVE.ended = false; follow(); later(); };
  const made = [...[...pending.values()].map((row) => [row.key, () => approval(row)]), ...parkedCards(() => ({ goOn: resume(() => ({})) }))];
  if (!made.length)
    for (const call of RUN.asked.values())
      made.push([`call ${call.index} ${call.n}`, () => el("li", { class: "approval" }, el("p", {}, el("span", { class: "mark warn", "aria-hidden": "true", text: "?" }), " waits for approval: ", el("code", { class: "tool", text: call.tool })), tree(call.arguments ?? null, call.n), originsOf(call))]);
  const apply = (row) => async () => {
    try {
      await ask(`/runs/${id}/apply`, { digest: row.digest });
    } catch (error) {
      if (error.found && error.found.plan) { planned(error.found.plan); later(); } // as it is now
      throw error;
    }
    can = [];
    plan = null;
    say("applied: the run goes on");
    LIVE.ended = false;
    follow();
    later();
  };
  if (plan) made.push([`plan ${JSON.stringify([plan.digest, plan.applied, plan.damage, plan.here, isLate(plan)])}`, () => planCard(plan, apply(plan))]);
  if (LIVE === null || !may("run")) return made;
  const quietly = (words, ...acts) => el("li", { class: "approval quietly" }, el("p", { class: "acts" }, acts, el("span", { class: "faint", text: words })));
  if (can.includes("reply")) made.push([`reply ${RUN.line}`, () => {
    const field = el("textarea", { id: "reply", rows: "2" });
    return el("li", { class: "approval" }, el("label", { for: "reply", text: (RUN.end && textOf(RUN.end.question)) || "The program asks you something" }), field, el("p", { class: "acts" }, doing("Answer and go on", "good", resume(() => ({ reply: field.value })))));
  }]);
  if (can.includes("resume") && !parkedRuns.size && !(plan && plan.calls.length)) made.push(["resume", () => quietly("goes on where it ended; what succeeded is not done again", doing("Resume", "", resume(() => ({}))))]);
  if (can.includes("stop")) made.push(["stop", () => quietly("", doing("Stop this run", "bad", async () => { await ask(`/runs/${id}/stop`, {}); say("stopping"); }))]);
  if (can.includes("keep")) made.push([`keep ${proposalKey()}`, () => keepCard(id)]);
  const task = RUN.tasks[RUN.tasks.length - 1];
  if (RUN.status === "planned" && told && !plan && task && typeof task.data.task === "string") made.push([`plan ${task.n}`, () => quietly("all is read again", doing("Do it for real", "good", async () => {
    const begun = await ask("/tasks", { task: task.data.task });
    location.assign(LIVE.run + encodeURIComponent(begun.run_id));
  }))]);
  return made;
}
