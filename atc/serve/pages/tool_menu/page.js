"use strict";
// Text of tools reaches the page by textContent alone: nothing here makes markup. A group is drawn when it is opened.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const MOST_FOUND = 100;
  const byId = (id) => document.getElementById(id);
  const search = byId("search"), status = byId("status"), found = byId("found"), menu = byId("menu");
  const isGroup = (entry) => entry.length > 2;
  const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

  const make = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // -- the menu --------------------------------------------------------------------------------------------------

  const lines = new Map(); // of what is drawn: entry → its element

  const drawTool = (entry) => {
    const line = make("li", "tool");
    line.append(make("code", "", entry[0]));
    if (entry[1]) line.append(make("span", "text", entry[1]));
    return line;
  };

  const drawGroup = (entry) => {
    const line = make("li", "");
    const button = make("button", "group", entry[0]);
    button.type = "button";
    button.append(make("span", "count", counted(entry[1], "tool")));
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => open(entry, button.getAttribute("aria-expanded") !== "true"));
    line.append(button);
    return line;
  };

  const draw = (into, entries, left) => {
    for (const entry of entries) {
      const line = isGroup(entry) ? drawGroup(entry) : drawTool(entry);
      lines.set(entry, line);
      into.append(line);
    }
    if (left) into.append(make("li", "tool text", `and ${counted(left, "tool")} more`));
  };

  const open = (entry, wide) => {
    const line = lines.get(entry), button = line.firstElementChild;
    button.setAttribute("aria-expanded", String(wide));
    let below = line.querySelector(":scope > ul");
    if (wide && !below) {
      below = make("ul", "");
      draw(below, entry[2], entry[3]);
      line.append(below);
    }
    if (below) below.hidden = !wide;
  };

  // -- search ----------------------------------------------------------------------------------------------------

  const all = []; // each entry, its place among those above it, and the words that it is found by
  const gather = (entries, above) => {
    for (const entry of entries) {
      const words = isGroup(entry) ? entry[0] : `${entry[0]}\n${entry[1]}`;
      all.push([entry, above, words.toLowerCase()]);
      if (isGroup(entry)) gather(entry[2], [...above, entry]);
    }
  };

  let chosen = null;
  const show = (entry, above) => {
    for (const group of above) open(group, true);
    if (isGroup(entry)) open(entry, true);
    if (chosen) chosen.classList.remove("chosen");
    chosen = lines.get(entry);
    chosen.classList.add("chosen");
    chosen.scrollIntoView({ block: "center" });
    const focus = isGroup(entry) ? chosen.firstElementChild : chosen;
    if (!isGroup(entry)) focus.tabIndex = -1;
    focus.focus({ preventScroll: true });
  };

  const look = () => {
    const asked = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.replaceChildren();
    if (!asked.length) { status.textContent = ""; return; }
    const hits = [];
    let many = 0;
    for (const each of all) {
      if (!asked.every((word) => each[2].includes(word))) continue;
      if (++many <= MOST_FOUND) hits.push(each);
    }
    for (const [entry, above] of hits) {
      const line = make("li", ""), button = make("button", "", entry[0]);
      button.type = "button";
      button.addEventListener("click", () => show(entry, above));
      line.append(button);
      const where = above.map((group) => group[0]).join(" / ");
      line.append(make("span", "text", isGroup(entry) ? counted(entry[1], "tool") : where));
      found.append(line);
    }
    status.textContent = many > MOST_FOUND ? `${many.toLocaleString("en")} found, the first ${MOST_FOUND} are listed` : `${many.toLocaleString("en")} found`;
  };

  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 80); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; look(); }
    if (event.key === "Enter") { clearTimeout(waiting); look(); found.querySelector("button")?.click(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  });

  gather(data.entries, []);
  draw(menu, data.entries, data.left);
  look();
})();
