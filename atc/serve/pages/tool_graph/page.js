"use strict";
// Text of tools reaches the page by textContent and by fillText alone: nothing here makes markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [boxWidth, boxHeight] = data.box;
  const { tools, edges, substitutes } = data;
  const kinds = data.evidence.map(([kind]) => kind);
  const SUBSTITUTE = kinds.length;
  const MOST_FOUND = 50;
  const byId = (id) => document.getElementById(id);
  const canvas = byId("picture");
  const pen = canvas.getContext("2d");

  const shown = { evidence: new Set([...kinds.keys(), SUBSTITUTE]), services: new Set(data.services.keys()) };
  const view = { x: 0, y: 0, scale: 1 };
  let chosen = -1, pointed = -1, matches = [], hits = null, colours = {}, waiting = false;

  const edgesOf = tools.map(() => []);
  edges.forEach((edge, number) => { edgesOf[edge[0]].push(number); edgesOf[edge[1]].push(number); });
  const words = tools.map((tool) =>
    [tool.name, tool.text, ...tool.arguments.map(([name]) => name), ...tool.fields].join("\n").toLowerCase());

  const visible = (tool) => shown.services.has(tools[tool].service);
  const open = (edge, kind) => shown.evidence.has(kind) && visible(edge[0]) && visible(edge[1]);
  // the surest kind of an edge's feeds that is not switched off; -1: none
  const kindOf = (edge) => {
    if (!visible(edge[0]) || !visible(edge[1])) return -1;
    if (shown.evidence.has(edge[2])) return edge[2];
    const left = edge[4].find((feed) => shown.evidence.has(feed[2]));
    return left ? left[2] : -1;
  };

  // -- drawing ---------------------------------------------------------------------------------------------------

  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };

  const takeColours = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["page", "ink", "faint", "box", "edge", "accent", "chosen", "substitute", ...kinds])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    redraw();
  };

  const fitCanvas = () => {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    redraw();
  };

  const ends = (from, to) => {
    const [x1, y1] = tools[from].at, [x2, y2] = tools[to].at;
    return [x1 + boxWidth, y1 + boxHeight / 2, x2, y2 + boxHeight / 2];
  };

  const trace = (path, from, to, curved, window_) => {
    const [x1, y1, x2, y2] = ends(from, to);
    const bend = x2 > x1 ? Math.max(30, (x2 - x1) / 2) : 70;
    if (Math.max(x1, x2) + bend < window_.left || Math.min(x1, x2) - bend > window_.right ||
        Math.max(y1, y2) < window_.top || Math.min(y1, y2) > window_.bottom) return;
    path.moveTo(x1, y1);
    if (curved) path.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2); else path.lineTo(x2, y2);
  };

  const head = (path, from, to) => {
    const [, , x, y] = ends(from, to);
    path.moveTo(x, y); path.lineTo(x - 8, y - 4); path.lineTo(x - 8, y + 4); path.closePath();
  };

  // many short paths are stroked far sooner than a long one
  const BATCH = 200;
  const strokes = (only, faded) => {
    const near = view.scale > 0.25 || only !== null, window_ = region();
    const strong = faded ? 0.08 : only ? 1 : edges.length > 2000 && !near ? 0.3 : 0.8;
    const lines = new Map();
    const put = (colour, alpha, from, to, headed) => {
      const key = `${colour}${alpha}`;
      let line = lines.get(key);
      if (!line) lines.set(key, line = { colour, alpha, path: new Path2D(), heads: new Path2D(), many: 0 });
      trace(line.path, from, to, near, window_);
      if (headed) head(line.heads, from, to);
      if (++line.many >= BATCH) { stroke(line); lines.delete(key); }
    };
    const stroke = (line) => {
      pen.strokeStyle = pen.fillStyle = line.colour;
      pen.globalAlpha = line.alpha;
      pen.stroke(line.path);
      pen.fill(line.heads);
    };
    pen.lineWidth = Math.max(only ? 2 : 1, 0.6 / view.scale);
    const drawn = only || edges;
    for (let number = drawn.length - 1; number >= 0; number--) { // the surest last, on top
      const edge = drawn[number], kind = kindOf(edge);
      if (kind < 0) continue;
      // against the order, or beside each other, are alternatives and circles: fainter
      const onward = tools[edge[1]].at[0] > tools[edge[0]].at[0], weak = kinds[kind] === "names" ? 0.7 : 1;
      put(colours[kinds[kind]], strong * (only ? 1 : onward ? weak : 0.4 * weak), edge[0], edge[1], near && !faded);
    }
    lines.forEach(stroke);
    lines.clear();
    pen.setLineDash([7, 5]);
    for (const each of substitutes)
      if (open(each, SUBSTITUTE) && (!only || each[0] === chosen || each[1] === chosen))
        put(colours.substitute, strong, each[0], each[1], false);
    lines.forEach(stroke);
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  };

  const region = () => ({
    left: -view.x / view.scale, top: -view.y / view.scale,
    right: (canvas.clientWidth - view.x) / view.scale, bottom: (canvas.clientHeight - view.y) / view.scale,
  });

  const shorten = new Map();
  const fitted = (text) => {
    if (!shorten.has(text)) {
      let cut = text;
      while (cut.length > 1 && pen.measureText(cut === text ? cut : `${cut}…`).width > boxWidth - 14)
        cut = cut.slice(0, Math.min(cut.length - 1, 60));
      shorten.set(text, cut === text ? text : `${cut}…`);
    }
    return shorten.get(text);
  };

  const boxes = (neighbours) => {
    const window_ = region(), labelled = view.scale > 0.35;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.lineWidth = Math.max(1, 0.7 / view.scale);
    tools.forEach((tool, number) => {
      const [x, y] = tool.at;
      if (!visible(number) || x > window_.right || x + boxWidth < window_.left || y > window_.bottom || y + boxHeight < window_.top) return;
      const dim = neighbours ? !neighbours.has(number) : hits && !hits.has(number);
      pen.globalAlpha = dim ? 0.25 : 1;
      pen.fillStyle = number === chosen ? colours.chosen : colours.box;
      pen.strokeStyle = number === chosen || number === pointed || (hits && hits.has(number)) ? colours.accent : colours.edge;
      pen.beginPath();
      pen.roundRect(x, y, boxWidth, boxHeight, 4);
      pen.fill();
      pen.stroke();
      if (labelled) {
        pen.fillStyle = colours.ink;
        pen.fillText(fitted(tool.name), x + 7, y + boxHeight / 2 + 1);
      }
    });
    pen.globalAlpha = 1;
  };

  const draw = () => {
    const ratio = canvas.width / Math.max(1, canvas.clientWidth);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = colours.page;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    let neighbours = null;
    if (chosen >= 0) {
      const own = edgesOf[chosen].map((number) => edges[number]);
      neighbours = new Set([chosen]);
      for (const edge of own) if (kindOf(edge) >= 0) neighbours.add(edge[0]).add(edge[1]);
      for (const each of substitutes)
        if (open(each, SUBSTITUTE) && (each[0] === chosen || each[1] === chosen)) neighbours.add(each[0]).add(each[1]);
      strokes(null, true);
      strokes(own, false);
      boxes(neighbours);
    } else {
      strokes(null, false);
      boxes(null);
    }
  };

  // -- moving ----------------------------------------------------------------------------------------------------

  const zoom = (factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    redraw();
  };
  const move = (x, y) => { view.x += x; view.y += y; redraw(); };
  const whole = () => {
    const [width, height] = data.size;
    view.scale = Math.min(1.2, canvas.clientWidth / Math.max(1, width), canvas.clientHeight / Math.max(1, height));
    view.x = (canvas.clientWidth - width * view.scale) / 2;
    view.y = (canvas.clientHeight - height * view.scale) / 2;
    redraw();
  };
  const centre = (tool) => {
    const [x, y] = tools[tool].at, window_ = region();
    const inside = x > window_.left && y > window_.top && x + boxWidth < window_.right && y + boxHeight < window_.bottom;
    if (inside && view.scale >= 0.5) return;
    view.scale = Math.max(view.scale, 0.6);
    view.x = canvas.clientWidth / 2 - (x + boxWidth / 2) * view.scale;
    view.y = canvas.clientHeight / 2 - (y + boxHeight / 2) * view.scale;
    redraw();
  };
  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    const x = (event.clientX - frame.left - view.x) / view.scale, y = (event.clientY - frame.top - view.y) / view.scale;
    return tools.findIndex((tool, number) => visible(number) &&
      x >= tool.at[0] && x <= tool.at[0] + boxWidth && y >= tool.at[1] && y <= tool.at[1] + boxHeight);
  };

  // -- the words beside the picture --------------------------------------------------------------------------------

  const make = (tag, text = "", name = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const link = (tool) => {
    const button = make("button", tools[tool].name, "link");
    button.addEventListener("click", () => {
      choose(tool);
      centre(tool);
      byId("details").querySelector("h2").focus(); // what had the focus is gone
    });
    return button;
  };
  const list = (title, lines) => {
    if (!lines.length) return;
    const items = make("ul");
    items.append(...lines);
    byId("details").append(make("h3", title), items);
  };
  const row = (...parts) => {
    const item = make("li");
    item.append(...parts);
    return item;
  };
  const evidence = (feed) => {
    const [, , kind, weight, seen] = feed;
    return make("span", ` ${data.evidence[kind][1]}, ${weight.toFixed(2)}${seen ? `, seen ${seen} times` : ""}`, kinds[kind]);
  };
  const inOut = (tool, end) => edgesOf[tool].map((number) => edges[number])
    .filter((edge) => edge[end] === tool && kindOf(edge) >= 0)
    .flatMap((edge) => {
      const rows = edge[4].filter((feed) => shown.evidence.has(feed[2])).map((feed) => {
        const path = feed[0] ? make("code", `.${feed[0]}`) : "";
        return end ? row(make("code", feed[1]), " ← ", link(edge[0]), path, evidence(feed))
                   : row(path || make("code", "…"), " → ", link(edge[1]), make("code", `.${feed[1]}`), evidence(feed));
      });
      if (edge[3] > edge[4].length) rows.push(row(make("span", `and ${edge[3] - edge[4].length} more between these two`, "faint")));
      return rows;
    });
  const rest = (count) => count ? [row(make("span", `and ${count} more`, "faint"))] : [];

  const describe = () => {
    const panel = byId("details");
    panel.replaceChildren();
    if (chosen < 0) return;
    const tool = tools[chosen], heading = make("h2", tool.name);
    heading.tabIndex = -1;
    panel.append(heading, make("p", `${tool.effect} · ${data.services[tool.service]}`, "faint"));
    if (tool.text) panel.append(make("p", tool.text, "text"));
    if (tool.calls) {
      const [good, failed, last] = tool.calls, date = last ? `, the last on ${new Date(last * 1000).toISOString().slice(0, 10)}` : "";
      panel.append(make("p", `${Math.round(good * 10) / 10} calls in answered runs, ${Math.round(failed * 10) / 10} failed${date}`));
    }
    list("What feeds it", inOut(chosen, 1));
    list("What it feeds", inOut(chosen, 0));
    list("In its place", substitutes.filter((each) => each[0] === chosen && open(each, SUBSTITUTE)).map((each) =>
      row(link(each[1]), make("span", ` ${each[3].join(", ")}, ${each[2].toFixed(2)}`, "substitute"))));
    list("It takes the place of", substitutes.filter((each) => each[1] === chosen && open(each, SUBSTITUTE)).map((each) => row(link(each[0]))));
    list("Arguments", [...tool.arguments.map(([name, type, needed]) =>
      row(make("code", name), make("span", ` ${type}${needed ? "" : ", optional"}`, "faint"))), ...rest(tool.more[0])]);
    list("It returns", [...tool.fields.map((field) => row(make("code", field))), ...rest(tool.more[1])]);
  };

  const choose = (tool) => {
    chosen = tool;
    describe();
    redraw();
  };

  const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
  const look = () => {
    const typed = byId("search").value.trim().toLowerCase();
    const found = byId("found");
    found.replaceChildren();
    const seen = [...tools.keys()].filter(visible);
    if (typed) {
      const named = (number) => tools[number].name.toLowerCase().includes(typed) ? 0 : 1;
      matches = seen.filter((number) => words[number].includes(typed)).sort((a, b) => named(a) - named(b) || a - b);
      hits = new Set(matches);
      found.append(...matches.slice(0, MOST_FOUND).map((number) => row(link(number))));
      byId("status").textContent = `${count(matches.length, "tool")} found` +
        (matches.length > MOST_FOUND ? `, ${MOST_FOUND} are listed` : "");
    } else {
      hits = null;
      matches = [];
      const lines = edges.filter((edge) => kindOf(edge) >= 0).length;
      const instead = substitutes.filter((each) => open(each, SUBSTITUTE)).length;
      byId("status").textContent = `${count(seen.length, "tool")}, ${count(lines, "edge")}` +
        (instead ? `, ${count(instead, "substitute")}` : "");
    }
    redraw();
  };

  const filters = () => { if (chosen >= 0 && !visible(chosen)) chosen = -1; describe(); look(); };
  const choice = (parent, set, value, text, number, line) => {
    const label = make("label", "", "choice"), box = make("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => { if (box.checked) set.add(value); else set.delete(value); filters(); });
    label.append(box, ...(line ? [make("span", "", `line ${line}`)] : []), make("span", text), make("span", number.toLocaleString("en"), "n"));
    byId(parent).append(label);
  };
  const counts = (values, many) => { const made = new Array(many).fill(0); for (const value of values) made[value]++; return made; };

  const legend = () => {
    const many = counts(edges.map((edge) => edge[2]), kinds.length);
    data.evidence.forEach(([kind, text], number) => choice("evidence", shown.evidence, number, text, many[number], kind));
    choice("evidence", shown.evidence, SUBSTITUTE, "can take its place", substitutes.length, "substitute dashed");
    const each = counts(tools.map((tool) => tool.service), data.services.length);
    data.services.forEach((name, number) => choice("services", shown.services, number, name, each[number]));
    const all = (on) => {
      for (const box of byId("services").querySelectorAll("input")) box.checked = on;
      shown.services.clear();
      if (on) for (const number of data.services.keys()) shown.services.add(number);
      filters();
    };
    byId("every").addEventListener("click", () => all(true));
    byId("none").addEventListener("click", () => all(false));
  };

  // -- hands -------------------------------------------------------------------------------------------------------

  const hands = () => {
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) {
        const over = at(event);
        if (over !== pointed) { pointed = over; canvas.title = over < 0 ? "" : tools[over].name; redraw(); }
        return;
      }
      const x = event.clientX - held.x, y = event.clientY - held.y;
      if (!held.moved && Math.hypot(x, y) < 4) return;
      canvas.classList.add("held");
      held = { x: event.clientX, y: event.clientY, moved: true };
      move(x, y);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held && !held.moved) choose(at(event));
      held = null;
      canvas.classList.remove("held");
    });
    canvas.addEventListener("pointercancel", () => { held = null; canvas.classList.remove("held"); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    byId("nearer").addEventListener("click", () => zoom(1.4));
    byId("farther").addEventListener("click", () => zoom(1 / 1.4));
    byId("whole").addEventListener("click", whole);
    byId("search").addEventListener("input", look);
    byId("search").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !matches.length) return;
      choose(matches[0]);
      centre(matches[0]);
    });
    const keys = {
      ArrowLeft: () => move(80, 0), ArrowRight: () => move(-80, 0), ArrowUp: () => move(0, 80), ArrowDown: () => move(0, -80),
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: whole,
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      keys[event.key]();
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { byId("search").value = ""; choose(-1); look(); }
      if (event.key === "/" && document.activeElement !== byId("search")) { byId("search").focus(); event.preventDefault(); }
    });
  };

  legend();
  hands();
  look();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", takeColours);
  new ResizeObserver(fitCanvas).observe(canvas);
  takeColours();
  fitCanvas();
  whole();
  if (data.around.length) choose(data.around[0]);
})();
