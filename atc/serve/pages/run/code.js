// Programs: their lines in colours, and what changed from one to the next.

const PIECES = /(#.*)|((?:[rbfuRBFU]{0,2})(?:"""|'''))|((?:[rbfuRBFU]{0,2})(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?))|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;
const WORDS = new Set(("and as assert async await break case class continue def del elif else except finally for from global if import in is "
  + "lambda match nonlocal not or pass raise return try while with yield").split(" "));
const CONSTANTS = new Set(["True", "False", "None"]);
const LONGEST = 2000; // characters of a line that get colours

/** The lines of a program, each as pieces [text, kind]. A text of several lines is one colour. */
function coloured(source, tools) {
  let inside = null;
  return source.split("\n").map((line) => {
    if (line.length > LONGEST) return [[line, ""]];
    const pieces = [];
    let from = 0;
    const close = (at) => {
      const end = line.indexOf(inside, at);
      const upto = end < 0 ? line.length : end + 3;
      pieces.push([line.slice(from, upto), "str"]);
      if (end >= 0) inside = null;
      from = upto;
    };
    if (inside) close(0);
    PIECES.lastIndex = from;
    for (let match; (match = PIECES.exec(line)) !== null && !inside; ) {
      if (match.index > from) pieces.push([line.slice(from, match.index), ""]);
      from = match.index;
      if (match[2] !== undefined) { inside = match[2].slice(-3); close(match.index + match[2].length); PIECES.lastIndex = from; continue; }
      const text = match[0];
      const kind = match[1] !== undefined ? "com" : match[3] !== undefined ? "str" : match[4] !== undefined ? "num"
        : tools.has(text) ? "fun" : WORDS.has(text) ? "kw" : CONSTANTS.has(text) ? "num" : "";
      pieces.push([text, kind]);
      from = match.index + text.length;
    }
    if (from < line.length) pieces.push([line.slice(from), ""]);
    return pieces;
  });
}

const MOST_COMPARED = 1500; // lines on either side that differ: above, all of one go and all of the other come

/** What makes `now` of `before`: [sign, index in before or now], sign " ", "−" or "+". */
function changes(before, now) {
  let head = 0, tail = 0;
  while (head < before.length && head < now.length && before[head] === now[head]) head++;
  while (tail < before.length - head && tail < now.length - head && before[before.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const a = before.slice(head, before.length - tail), b = now.slice(head, now.length - tail), steps = [];
  for (let at = 0; at < head; at++) steps.push([" ", at]);
  if (a.length > MOST_COMPARED || b.length > MOST_COMPARED) {
    a.forEach((_, at) => steps.push(["−", head + at]));
    b.forEach((_, at) => steps.push(["+", head + at]));
  } else {
    const width = b.length + 1, longest = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i--)
      for (let j = b.length - 1; j >= 0; j--)
        longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { steps.push([" ", head + j]); i++; j++; }
      else if (i < a.length && (j >= b.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) steps.push(["−", head + i++]);
      else steps.push(["+", head + j++]);
    }
  }
  for (let at = now.length - tail; at < now.length; at++) steps.push([" ", at]);
  return steps;
}
