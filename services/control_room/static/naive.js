// The naive shop beside the real one: shown while it runs, broken together with it while the switch is on.
import { number } from "./api.js";

const section = document.getElementById("naive");
const hint = document.getElementById("naive-hint");

// Added to what is sent to a fault that can strike both.
export const both = () => ({ naive: !section.hidden && Boolean(document.getElementById("both")?.checked) });

export function showNaive({ naive }) {
  section.hidden = !naive;
  if (hint) hint.hidden = Boolean(naive);
  if (!naive) return;
  for (const box of section.querySelectorAll("[data-naive]")) {
    const text = number(naive[box.dataset.naive]);
    if (box.lastElementChild.textContent !== text) box.lastElementChild.textContent = text;
    box.classList.toggle("wrong", ["doubled", "missing"].includes(box.dataset.naive) && naive[box.dataset.naive] > 0);
  }
  section.dataset.verdict = naive.doubled || (naive.missing && naive.quiet) ? "differs" : "equal";
  const title = verdict(naive);
  const heading = document.getElementById("naive-verdict");
  if (heading.textContent !== title) heading.textContent = title;
}

function verdict({ orders, doubled, missing, quiet }) {
  const parts = [];
  if (doubled) parts.push(`${number(doubled)} invoice(s) and mail(s) too many`);
  if (missing) parts.push(quiet ? `${number(missing)} order(s) lost` : `${number(missing)} order(s) in flight or lost`);
  if (parts.length) return `The naive shop: ${parts.join(" · ")}`;
  return orders ? "The naive shop: equal, so far" : "The same shop, written the usual way";
}
