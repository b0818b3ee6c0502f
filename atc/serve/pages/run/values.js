// Values: in one line, and as a tree that opens. Nodes are those of atc/serve/pages/run/nodes.py.

const PAGE = 100; // members that are drawn at once
const TEXT_PAGE = 20000; // characters of a text that are drawn at once
const isObject = (node) => node !== null && typeof node === "object";

/** A node in one line of about `room` characters, as pieces of text with their kinds. */
function briefly(node, room) {
  const pieces = [];
  let left = room;
  const put = (text, kind) => {
    if (left <= 0) return;
    const cut = text.length > left ? `${text.slice(0, left)}…` : text;
    left -= cut.length;
    pieces.push([cut, kind]);
  };
  const write = (at, depth) => {
    if (left <= 0) return;
    if (!isObject(at)) return put(typeof at === "string" ? JSON.stringify(at.slice(0, left + 2)) : String(at), kindOf(at));
    if ("n" in at) return put(at.n, "num");
    if ("t" in at) { put(JSON.stringify(at.t.slice(0, Math.max(8, left - 24))).slice(0, -1), "str"); return put(`… (${count(at.size)} characters)`, "faint"); }
    if ("b" in at) return put(`${count(at.size)} bytes`, "faint");
    const list = "l" in at, members = list ? at.l : at.o;
    if (!at.size) return put(list ? "[]" : "{}", "pun");
    if (depth === 0 || (!members.length && at.size)) return put(list ? `[${plural(at.size, "item")}]` : `{${plural(at.size, "key")}}`, "faint");
    put(list ? "[" : "{", "pun");
    let number = 0;
    for (const member of members) {
      if (left <= 12) break;
      if (number++) put(", ", "pun");
      if (!list) put(`${member[0]}: `, "key");
      write(list ? member : member[1], depth - 1);
    }
    if (number < at.size) put(`, … ${list ? plural(at.size, "item") : plural(at.size, "key")}`, "faint");
    left = Math.max(left, 1);
    put(list ? "]" : "}", "pun");
  };
  write(node, 2);
  return pieces;
}
const kindOf = (at) => (typeof at === "string" ? "str" : typeof at === "number" ? "num" : "lit");
const inBrief = (node, room) => briefly(node, room).map(([text, kind]) => el("span", { class: kind, text }));
const briefText = (node, room) => briefly(node, room).map(([text]) => text).join("");

/** The whole of what is cut at `pointer`: from this file, or from the server; null where neither has it. */
async function wholeOf(line, pointer) {
  if (LIVE) return ask(`/runs/${encodeURIComponent(LIVE.run_id)}/value?line=${line}&pointer=${pointer}`);
  const steps = pointer.split(".");
  for (let most = steps.length; most > 0; most--) {
    const held = byId(`w${line}-${steps.slice(0, most).join(".")}`);
    if (!held) continue;
    let node = JSON.parse(held.textContent);
    for (const step of steps.slice(most)) node = node.l ? node.l[step] : node.o[step][1];
    return node;
  }
  return null;
}

/** A tree of a node; `line`: of the event that it is from. */
function tree(node, line, name = null, open = true, asText = false) {
  const row = el("div", { class: "value" });
  if (asText && typeof node === "string") drawText(row, node, line, name);
  else putValue(row, node, line, name, open);
  return row;
}
const keyed = (name) => (name === null ? [] : [el("span", { class: "key", text: name }), el("span", { class: "pun", text: ": " })]);

function putValue(row, node, line, name, open) {
  if (isObject(node) && ("o" in node || "l" in node) && node.size) return drawMembers(row, node, line, name, open);
  if (isObject(node) && "t" in node) return drawText(row, node, line, name);
  if (typeof node === "string" && (node.length > 120 || node.includes("\n"))) return drawText(row, node, line, name);
  row.replaceChildren(...keyed(name), ...inBrief(node, 4000));
}

function drawMembers(row, node, line, name, open) {
  const list = "l" in node, members = list ? node.l : node.o;
  const size = list ? plural(node.size, "item") : plural(node.size, "key");
  const hint = el("span", { class: "hint" });
  const body = el("div", { class: "members", hidden: true });
  const button = el("button", { class: "twig stop", type: "button", "aria-expanded": "false" },
    el("span", { class: "tri", "aria-hidden": "true" }), ...keyed(name), el("span", { class: "faint", text: list ? `[${size}]` : `{${size}}` }), " ", hint);
  const set = (opened) => {
    button.setAttribute("aria-expanded", String(opened));
    body.hidden = !opened;
    hint.replaceChildren(...(opened ? [] : inBrief(node, 90)));
    if (opened && !body.firstChild) fill(body, node, members, list, line, 0, row, name);
  };
  button.addEventListener("click", () => set(body.hidden));
  row.replaceChildren(button, body);
  set(open && node.size <= 60);
}

function fill(body, node, members, list, line, from, row, name) {
  const upto = Math.min(members.length, from + PAGE);
  for (let at = from; at < upto; at++)
    body.append(list ? tree(members[at], line, String(at), false) : tree(members[at][1], line, members[at][0], members[at][1] && members[at][1].size <= 6));
  if (upto < members.length) {
    const more = el("button", { class: "more stop", type: "button", text: `show ${count(Math.min(PAGE, members.length - upto))} more of ${count(members.length)}` });
    more.addEventListener("click", () => {
      const before = body.childElementCount - 1;
      more.remove();
      fill(body, node, members, list, line, upto, row, name);
      (body.children[before].querySelector(".stop") || body.querySelector(".more"))?.focus();
    });
    body.append(more);
  } else if (members.length < node.size) body.append(opener(node, line, row, name, `${count(node.size - members.length)} more not shown`));
}

/** A button that puts the whole in the place of what is cut. */
function opener(node, line, row, name, words) {
  if (!node.at) return el("span", { class: "faint", text: words });
  const button = el("button", { class: "more stop", type: "button", text: `${words} · show all` });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const whole = await wholeOf(line, node.at);
      if (whole === null) return void (button.textContent = `${words} · not in this file`);
      putValue(row, whole, line, name, true);
      const first = row.querySelector(".twig");
      if (first) { if (first.getAttribute("aria-expanded") === "false") first.click(); first.focus(); } else { row.tabIndex = -1; row.focus(); }
    } catch (error) {
      button.disabled = false;
      say(error.message, "bad");
    }
  });
  return button;
}

function drawText(row, node, line, name) {
  const text = typeof node === "string" ? node : node.t;
  const size = typeof node === "string" ? node.length : node.size;
  let shown = Math.min(text.length, TEXT_PAGE);
  const place = el("pre", { class: "long", text: text.slice(0, shown), ...(text.length > 1000 || text.split("\n", 21).length > 20 ? { tabindex: "0", role: "group", "aria-label": name || "text" } : {}) });
  row.replaceChildren(...(name === null ? [] : [el("div", {}, ...keyed(name), el("span", { class: "faint", text: plural(size, "character") }))]), place);
  if (shown < text.length) {
    const more = el("button", { class: "more stop", type: "button" });
    const label = () => (more.textContent = `${count(shown)} of ${count(text.length)} characters · show more`);
    more.addEventListener("click", () => {
      place.append(text.slice(shown, (shown += 10 * TEXT_PAGE)));
      if (shown >= text.length) more.remove();
      else label();
    });
    label();
    row.append(more);
  } else if (text.length < size) row.append(opener(node, line, row, name, `${count(text.length)} of ${count(size)} characters`));
}
