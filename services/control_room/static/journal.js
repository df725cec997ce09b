// What was done to the shop, newest first.
import { clock, make } from "./api.js";

let shown = 0;

export function showJournal({ journal }) {
  const last = journal.at(-1)?.number ?? 0;
  if (last === shown) return;
  shown = last;
  document.getElementById("journal").replaceChildren(...journal.toReversed().map((entry) =>
    make("li", { data: { kind: entry.kind } }, make("time", { textContent: clock(entry.at) }), make("span", { textContent: entry.what }))));
}
