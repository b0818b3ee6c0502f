// The run in time: one lane for the model, one for programs, one for calls. Long waits between tasks are drawn short.

const WIDE = 1000, LANES = { model: 4, program: 18, call: 32 }, TALL = 46, SHORT = 0.03;
const MOST_BARS = 4000;

/** Intervals of what was done: [lane, tone, from, to, name]. */
function spans(run) {
  const made = run.models.map(({ at, data }) => ["model", "model", at - (data.seconds || 0), at, `model ${PURPOSES.get(data.purpose) || data.purpose}`]);
  if (run.writing) made.push(["model", "live", run.writing.at, Date.now() / 1000, "model"]);
  for (const program of run.programs) {
    const to = program.endedAt || (program.running ? Date.now() / 1000 : program.calls.length ? program.calls[program.calls.length - 1].endedAt : 0);
    if (program.began && to) made.push(["program", outcomeOf(program)[1] || "good", program.began, to, `program ${program.number}`]);
  }
  for (const call of run.calls.values()) {
    const to = call.endedAt || (call.status === "running" ? Date.now() / 1000 : call.began);
    made.push(["call", MARKS[call.status] ? MARKS[call.status][1] : "warn", Math.max(call.began, to - (call.seconds || 0)), to, `call ${call.index}`]);
  }
  return made.filter(([, , from, to]) => from > 0 && to >= from).sort((a, b) => a[2] - b[2]);
}

/** A function from time to a place of 0 to WIDE; gaps in which nothing was done are short. */
function scaled(all) {
  const busy = [];
  for (const [, , from, to] of all) {
    const at = busy[busy.length - 1];
    if (at && from <= at[1]) at[1] = Math.max(at[1], to);
    else busy.push([from, to]);
  }
  const sum = busy.reduce((total, [from, to]) => total + to - from, 0) || 1e-3;
  const points = [];
  let place = 0;
  busy.forEach(([from, to], at) => {
    if (at) place += Math.min(from - busy[at - 1][1], SHORT * sum);
    points.push([from, place]);
    place += to - from;
    points.push([to, place]);
  });
  const factor = WIDE / (place || 1e-3);
  return (time) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (points[middle][0] <= time) low = middle; else high = middle; }
    const [[t1, p1], [t2, p2]] = [points[low], points[high] || points[low]];
    return factor * (t2 > t1 ? p1 + ((p2 - p1) * (time - t1)) / (t2 - t1) : p1);
  };
}

function ribbon(run) {
  const all = spans(run).slice(0, MOST_BARS);
  if (!all.length) return null;
  const place = scaled(all), paths = new Map();
  const sums = { model: 0, call: 0 };
  for (const [lane, tone, from, to] of all) {
    if (lane in sums) sums[lane] += to - from;
    const key = `${lane} ${tone}`, x = place(from), width = Math.max(1.6, place(to) - x);
    paths.set(key, `${paths.get(key) || ""}M${Math.min(x, WIDE - 1.6).toFixed(1)},${LANES[lane]}h${width.toFixed(1)}v10h-${width.toFixed(1)}z`);
  }
  const words = `Where the time went: model ${took(sums.model)}, tools ${took(sums.call)}`;
  return el("figure", { class: "ribbon" },
    el("div", { class: "lanes", "aria-hidden": "true" }, ["model", "programs", "calls"].map((text) => el("span", { text }))),
    svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      ...Object.values(LANES).map((y) => svg("path", { class: "lane", d: `M0,${y + 5}h${WIDE}` })),
      ...[...paths].map(([key, d]) => svg("path", { class: `bar ${key.split(" ")[1]} ${key.split(" ")[0]}-bar`, d }))));
}
