// The theme's search puts a wildcard behind each word, so that "a" of "delete a run" fits every word that begins with it.
// Words that carry no meaning are taken out of a query before it reaches the worker that searches.
const QUERY = 2; // the kind of message by which the theme asks its worker
const EMPTY = new Set(
  ("a am an and are as at be by can could did do does for from had has have how i if in into is it its me my of on or our " +
    "should so that the their them then there these they this to use using was we were what when where which who why will " +
    "with without work works would you your").split(" "),
);
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message && message.type === QUERY && typeof message.data === "string") {
    const kept = message.data.split(/\s+/).filter((word) => !EMPTY.has(word.toLowerCase().replace(/[?!.,]/g, "")));
    if (kept.some((word) => word)) message = { ...message, data: kept.join(" ").replace(/[?!,]/g, "") };
  }
  return post.call(this, message, ...rest);
};
