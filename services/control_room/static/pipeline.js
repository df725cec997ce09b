// The way of an order as a railway map. The stations are HTML; the track between them, and what runs on it, is SVG.
import { make, number } from "./api.js";

const EDGES = {
  "shop-orders": (s) => s.ledger.orders,
  "orders-relay": published,
  "relay-kafka": published,
  "kafka-billing": (s) => sum(s, "billing"),
  "kafka-analytics": (s) => sum(s, "analytics"),
  "billing-worker": (s) => s.ledger.invoices,
  "worker-mail": (s) => s.ledger.mails,
  "analytics-sales": (s) => s.ledger.counted,
};
const COPIES = {
  "kafka-billing": (s) => s.ledger.duplicates,
  "kafka-analytics": (s) => s.ledger.duplicates_in_analytics,
};
const MOST = 20; // dots for an edge and a sample: more would be a line
const RUN_MS = 900;
const BUSY = 20; // records that wait: fewer are on their way
const SVG = "http://www.w3.org/2000/svg";

const map = document.getElementById("tracks");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const paths = {};
const dots = new Set();
let running = false;

function published(sample) {
  return sum(sample, "end");
}

function sum({ partitions }, what) {
  return partitions.reduce((total, each) => total + each[what], 0);
}

for (const name of Object.keys(EDGES)) {
  paths[name] = document.createElementNS(SVG, "path");
  paths[name].dataset.edge = name;
  paths[name].dataset.carried = 0;
  map.append(paths[name]);
}

function draw() {
  const origin = map.getBoundingClientRect();
  for (const [name, path] of Object.entries(paths)) {
    const [from, to] = name.split("-").map((id) => centre(`at-${id}`, origin));
    path.setAttribute("d", wide() ? across(from, to) : down(from, to));
  }
}

// A branch leaves its track just before the station it leads to, where no text stands.
function across(from, to) {
  if (from.y === to.y) return `M${from.x},${from.y} H${to.x}`;
  const turn = to.x - 34;
  return `M${from.x},${from.y} H${turn - 34} Q${turn},${from.y} ${turn},${from.y + 34} V${to.y - 34} Q${turn},${to.y} ${to.x},${to.y}`;
}

function down(from, to) {
  if (from.x === to.x) return `M${from.x},${from.y} V${to.y}`;
  const turn = to.y - 26;
  return `M${from.x},${from.y} V${turn - 20} Q${from.x},${turn} ${from.x + 20},${turn} H${to.x - 20} Q${to.x},${turn} ${to.x},${to.y}`;
}

const wide = () => matchMedia("(min-width: 62rem)").matches;

function centre(id, origin) {
  const box = document.querySelector(`#${id} .stop`).getBoundingClientRect();
  return { x: box.left + box.width / 2 - origin.left, y: box.top + box.height / 2 - origin.top };
}

new ResizeObserver(draw).observe(document.getElementById("stations"));

export function showPipeline(sample, before) {
  states(sample);
  figures(sample);
  if (before) move(sample, before);
}

// --- what runs on the track ---

function move(sample, before) {
  for (const [name, count] of Object.entries(EDGES)) {
    const all = Math.max(0, count(sample) - count(before));
    const copies = Math.min(all, Math.max(0, (COPIES[name]?.(sample) ?? 0) - (COPIES[name]?.(before) ?? 0)));
    paths[name].dataset.carried = Number(paths[name].dataset.carried) + all;
    paths[name].classList.toggle("busy", still.matches && all > 0);
    if (!still.matches && !document.hidden) launch(name, all, copies);
  }
}

function launch(edge, all, copies) {
  const shown = Math.min(all, MOST);
  const hollow = all ? Math.round((copies / all) * shown) : 0;
  for (let n = 0; n < shown; n += 1) {
    const circle = document.createElementNS(SVG, "circle");
    circle.setAttribute("r", 5);
    circle.classList.toggle("copy", n < hollow);
    dots.add({ circle, edge, start: performance.now() + (n / shown) * 900, length: 0 });
  }
  if (!running && dots.size) {
    running = true;
    requestAnimationFrame(frame);
  }
}

function frame(now) {
  for (const dot of dots) {
    const share = (now - dot.start) / RUN_MS;
    if (share < 0) continue;
    if (share >= 1) {
      dot.circle.remove();
      dots.delete(dot);
      continue;
    }
    const path = paths[dot.edge];
    dot.length ||= path.getTotalLength();
    const { x, y } = path.getPointAtLength(dot.length * share);
    dot.circle.setAttribute("cx", x);
    dot.circle.setAttribute("cy", y);
    if (!dot.circle.isConnected) map.append(dot.circle);
  }
  running = dots.size > 0;
  if (running) requestAnimationFrame(frame);
}

// --- stations ---

const WORDS = { up: "up", ill: "ill", down: "down", restarting: "restarting" };

function states({ processes, servers }) {
  const known = { ...processes, ...Object.fromEntries(Object.entries(servers).map(([name, state]) => [name, { state }])) };
  for (const station of document.querySelectorAll(".station[data-process]")) {
    const name = station.dataset.process;
    const { state = "down", why, restarts } = known[name] ?? {};
    station.dataset.state = state;
    const again = restarts ? ` · restarted ${restarts} ×` : "";
    write(station.querySelector("[data-state-of]"), `${WORDS[state]}${state === "ill" && why ? `: ${why.slice(0, 60)}` : again}`);
  }
  others(known);
}

function others(known) {
  const list = document.getElementById("others");
  const drawn = new Set([...document.querySelectorAll(".station[data-process]")].map((each) => each.dataset.process));
  for (const [name, { state, restarts }] of Object.entries(known)) {
    if (drawn.has(name)) continue;
    let item = list.querySelector(`[data-name="${name}"]`);
    if (!item) list.append((item = make("li", { data: { name } })));
    item.dataset.state = state;
    write(item, state === "up" ? name + (restarts ? ` · restarted ${restarts} ×` : "") : `${name} · ${WORDS[state]}`);
  }
}

function figures(s) {
  const { ledger, rates, flight, lag, letters } = s;
  const figure = (id, text) => write(document.querySelector(`[data-figure="${id}"]`), text);
  figure("shop", rate(rates.orders));
  figure("orders", number(ledger.orders));
  figure("relay", `${rate(rates.published)}/s`);
  figure("kafka", number(published(s)));
  figure("billing", number(ledger.invoices));
  figure("worker", number(ledger.pdfs));
  figure("mail", number(ledger.mails));
  figure("analytics", number(ledger.counted));
  figure("sales", rate(rates.counted));
  facts("orders", [["waiting in outbox", number(flight.to_publish), flight.to_publish > 0], ["oldest waits", seconds(s.oldest_s), s.oldest_s > 5]]);
  facts("kafka", s.partitions.map((p) => [`partition ${p.partition}`, number(p.end), false]));
  facts("billing", [["lag", number(lag.billing), lag.billing > BUSY], ["read", `${rate(rates.read_by_billing)}/s`], ["suppressed", number(ledger.duplicates)], ["dead letters", number(letters.billing), letters.billing > 0]]);
  facts("worker", [["to render", number(flight.to_render)], ["to mail", number(flight.to_mail)], ["done", `${rate(rates.pdfs)}/s`]]);
  facts("mail", [["in the box", number(s.mailbox.copies)], ["in doubt", number(s.mailbox.unknown_outcomes)], ["p50 to here", seconds(s.latency.mail_p50)]]);
  facts("analytics", [["lag", number(lag.analytics), lag.analytics > BUSY], ["read", `${rate(rates.read_by_analytics)}/s`], ["suppressed", number(ledger.duplicates_in_analytics)], ["dead letters", number(letters.analytics), letters.analytics > 0]]);
}

const rate = (n) => (n >= 10 ? number(Math.round(n)) : n.toFixed(n ? 1 : 0));
const seconds = (n) => (n === null || n === undefined ? "–" : n >= 10 ? `${Math.round(n)} s` : `${n.toFixed(1)} s`);

function facts(id, rows) {
  const list = document.querySelector(`[data-facts="${id}"]`);
  while (list.children.length < rows.length) list.append(make("div", {}, make("dt"), make("dd")));
  rows.forEach(([name, value, hot], n) => {
    const [term, detail] = list.children[n].children;
    write(term, name);
    write(detail, value);
    list.children[n].classList.toggle("hot", Boolean(hot));
  });
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
