// The sketch, drawn: tools in the order in which they can be called, and what feeds what.

const BOX = [156, 26], GAP = [44, 9], MOST_DRAWN = 60;

/** A picture of offered tools, or null where there is nothing to see in one. */
function drawnSketch(data, called) {
  const tools = names(data.tools);
  const feeds = (data.feeds || []).filter((each) => each.supplier && each.consumer);
  if (!feeds.length || tools.length > MOST_DRAWN) return null;
  const layers = (data.layers || []).filter(Array.isArray).map((layer) => names(layer));
  const placed = new Set(layers.flat());
  const rest = tools.filter((name) => !placed.has(name));
  if (rest.length) layers.push(rest);
  const at = new Map();
  layers.forEach((layer, column) => layer.forEach((name, row) => at.set(name, [column * (BOX[0] + GAP[0]) + 1, row * (BOX[1] + GAP[1]) + 1])));
  const tall = Math.max(...layers.map((layer) => layer.length)) * (BOX[1] + GAP[1]);
  const wide = layers.length * (BOX[0] + GAP[0]) - GAP[0] + 2;
  const edges = feeds.filter((each) => at.has(each.supplier) && at.has(each.consumer)).map((each) => {
    const [x1, y1] = at.get(each.supplier), [x2, y2] = at.get(each.consumer);
    const forward = x2 > x1, from = [x1 + (forward ? BOX[0] : BOX[0] / 2), y1 + BOX[1] / (forward ? 2 : 1)], to = [forward ? x2 : x2 + BOX[0] / 2, y2 + (forward ? BOX[1] / 2 : 0)];
    const bend = forward ? Math.max(24, (to[0] - from[0]) / 2) : 0, drop = forward ? 0 : 18;
    const path = `M${from} C${from[0] + bend},${from[1] + drop} ${to[0] - bend},${to[1] - drop} ${to}`;
    return svg("path", { d: path, class: `feed ${called.has(each.supplier) && called.has(each.consumer) ? "used " : ""}${each.evidence === "predicted" || each.evidence === "names" ? "weak" : ""}` }, svg("title", { text: `${each.supplier} gives ${each.parameter} of ${each.consumer} (${each.evidence || "names"})` }));
  });
  const boxes = [...at].map(([name, [x, y]]) => svg("g", { class: called.has(name) ? "box used" : "box" },
    svg("rect", { x, y, width: BOX[0], height: BOX[1], rx: 6 }),
    svg("text", { x: x + 8, y: y + 17.5, text: oneLine(name, 20) }), svg("title", { text: name })));
  const words = `${plural(at.size, "tool")} in ${plural(layers.length, "layer")}, ${plural(edges.length, "feed")}; the list below says the same`;
  return el("div", { class: "drawn", tabindex: "0", role: "group", "aria-label": "What feeds what" },
    svg("svg", { viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", "aria-label": words }, ...edges, ...boxes));
}

/** All that is known of why these tools are offered. */
function sketchDetails(data, called) {
  const rows = names(data.tools).map((name) => {
    const why = (data.why || []).find(([tool]) => tool === name), by = (data.substitutes || []).find(([tool]) => tool === name);
    return el("li", {}, el("code", { class: called.has(name) ? "tool used" : "tool", text: name }), called.has(name) ? el("span", { class: "chip", text: "called" }) : null,
      why ? el("span", { class: "faint", text: ` ${why[1]}` }) : null, by ? el("span", { class: "faint", text: ` · ${by[1].join(" or ")} can take its place` }) : null);
  });
  const feeds = (data.feeds || []).filter((each) => each.supplier).map((each) => el("li", {},
    el("code", { text: each.consumer }), "(", el("code", { text: each.parameter }), ") ← ", el("code", { text: each.supplier }), el("span", { class: "faint", text: ` ${(each.path || []).filter((step) => typeof step === "string").join(".")} (${each.evidence || "names"})` })));
  const listed = (words, items) => (items.length ? [el("h3", { text: words }), el("ul", { class: "plain" }, items)] : []);
  const texts = (field) => (data[field] || []).map(textOf).filter(Boolean).map((text) => el("li", { text }));
  return el("div", { class: "sketched" }, drawnSketch(data, called), listed("Tools", rows), listed("What feeds what", feeds),
    listed("Sub-goals", texts("subgoals")), listed("Queries", texts("queries")), listed("Notes", texts("notices")),
    data.plan ? [el("h3", { text: "Plan" }), el("pre", { class: "long", tabindex: "0", role: "group", "aria-label": "Plan", text: textOf(data.plan) })] : null);
}
