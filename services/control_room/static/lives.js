// The newest orders, step by step; and one order's whole life.
import { clock, get, granted, make } from "./api.js";

const STEPS = [["confirmed", "confirmed"], ["published", "publishing"], ["invoiced", "invoice"], ["pdf", "PDF"], ["mailed", "mail"], ["counted", "count"]];
const list = document.getElementById("newest");
const life = document.getElementById("life");
let open = null;

export function showNewest({ newest }) {
  const rows = new Map([...list.children].map((row) => [row.dataset.order, row]));
  list.replaceChildren(...newest.map((order) => {
    const row = rows.get(order.order) ?? rowOf(order);
    STEPS.forEach(([step], n) => row.querySelectorAll("i")[n].classList.toggle("done", order.steps.includes(step)));
    const reached = STEPS.filter(([step]) => order.steps.includes(step)).map(([, name]) => name);
    row.dataset.reached = reached.length;
    row.querySelector(".steps").setAttribute("aria-label", reached.join(", "));
    const next = STEPS.find(([step]) => !order.steps.includes(step));
    const far = next ? `awaits ${next[1]}` : "done";
    if (row.lastChild.textContent !== far) row.lastChild.textContent = far;
    return row;
  }));
  if (newest.length === 0) list.append(make("li", { className: "quiet", textContent: "No order within the last hour." }));
}

function rowOf({ order, at }) {
  const name = granted
    ? make("button", { type: "button", textContent: order, title: `The life of order ${order}…` })
    : make("span", { className: "name", textContent: order });
  name.addEventListener("click", () => granted && show(order));
  const steps = make("span", { className: "steps", role: "img" }, ...STEPS.map(([, title]) => make("i", { title })));
  return make("li", { data: { order }, title: `confirmed at ${clock(at)}` }, name, steps, make("time"));
}

document.getElementById("find")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = event.target.elements.order.value.trim() || list.firstElementChild?.dataset.order;
  if (wanted) show(wanted);
});

async function show(order) {
  open = order;
  life.hidden = false;
  life.replaceChildren(make("p", { className: "quiet", textContent: "Reading" }));
  try {
    const found = await get(`/v1/lives/${encodeURIComponent(order)}`);
    if (open === order) life.replaceChildren(...parts(found));
  } catch (error) {
    life.replaceChildren(make("p", { className: "said", data: { bad: "" }, textContent: error.message }));
  }
  life.focus({ preventScroll: true });
  life.scrollIntoView({ block: "nearest" });
}

function parts({ order_id: id, moments, pdf, mails }) {
  const links = make("p", { className: "links" });
  if (pdf) links.append(make("a", { href: pdf, target: "_blank", rel: "noopener", textContent: "The PDF" }));
  mails.forEach((mail, n) => links.append(make("a", { href: mail, target: "_blank", rel: "noopener", textContent: n ? `Mail, copy ${n + 1}` : "The mail" })));
  const close = make("button", { type: "button", className: "plain", textContent: "Close" });
  close.addEventListener("click", () => { life.hidden = true; open = null; });
  return [make("h3", { textContent: id }), links, make("ol", {}, ...moments.map(moment)), close];
}

function moment({ at, where, what }) {
  const when = at ? new Date(at) : null;
  const time = when ? `${when.toLocaleTimeString("en-GB")}.${String(when.getMilliseconds()).padStart(3, "0")}` : "";
  return make("li", {}, make("time", { textContent: time, dateTime: at ?? "" }), make("span", { className: "where", textContent: where }), make("span", { className: "what", textContent: what }));
}
