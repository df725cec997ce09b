// Asks for the figures every two seconds and shows them. services/analytics/sampler.py says why it asks.
import { barChart } from "./charts.js";

const EVERY_MS = 2000;
const DAY_S = 86400;
const get = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat();
let charts = null;
let shown = null;
let wanted = null;

function money(minor, currency, short = false) {
  const format = new Intl.NumberFormat(undefined, { style: "currency", currency, ...(short && { notation: "compact" }) });
  const digits = new Intl.NumberFormat(undefined, { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  return format.format(minor / 10 ** digits);
}

const time = (iso, options) => new Date(iso).toLocaleString(undefined, { timeZone: "UTC", ...options });
const clock = (iso) => time(iso, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const date = (iso) => time(iso, { day: "numeric", month: "short" });
const seconds = (iso) => Date.parse(iso) / 1000;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

function show(figures) {
  if (shown && figures.as_of < shown.as_of) return; // another server process, a second behind
  shown = figures;
  get("as-of").textContent = `${time(figures.as_of, { timeStyle: "medium", hourCycle: "h23" })} UTC`;
  get("empty").hidden = figures.totals.length > 0;
  get("figures").hidden = figures.totals.length === 0;
  if (figures.totals.length === 0) return;
  const totals = figures.totals.find((each) => each.currency === wanted) ?? figures.totals[0];
  offer(figures.totals.map((each) => each.currency), totals.currency);
  tiles(totals);
  charts ??= {
    minutes: barChart(get("minutes"), { step: 60, label: whole.format, moment: (s) => clock(s * 1000) }),
    days: barChart(get("days"), {
      step: DAY_S,
      label: (n) => money(n, wanted, true),
      value: (n) => money(n, wanted),
      moment: (s) => date(s * 1000),
    }),
  };
  minutes(figures);
  days(figures, totals.currency);
  products(figures.products.filter((each) => each.currency === totals.currency));
}

function offer(currencies, chosen) {
  wanted = chosen;
  const box = get("currencies");
  box.hidden = currencies.length < 2;
  if (box.dataset.offered === currencies.join()) return; // keeps the focus where it is
  box.dataset.offered = currencies.join();
  box.querySelectorAll("label").forEach((label) => label.remove());
  for (const currency of currencies) {
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "currency", value: currency });
    input.checked = currency === chosen;
    input.addEventListener("change", () => { wanted = currency; show(shown); });
    const label = document.createElement("label");
    label.append(input, currency);
    box.append(label);
  }
}

function tiles(totals) {
  get("revenue-today").textContent = money(totals.revenue_today, totals.currency);
  get("orders-today").textContent = whole.format(totals.orders_today);
  get("revenue").textContent = money(totals.revenue, totals.currency);
  get("orders").textContent = whole.format(totals.orders);
}

function minutes(figures) {
  const orders = figures.minutes.map((each) => each.orders);
  get("minutes-caption").textContent =
    `${whole.format(sum(orders))} in the last hour, all currencies; the busiest minute had ${whole.format(Math.max(...orders))}`;
  charts.minutes(figures.minutes.map((each) => seconds(each.minute)), orders);
}

function days(figures, currency) {
  const sold = figures.days.filter((each) => each.currency === currency);
  const revenue = new Map(sold.map((each) => [seconds(each.day), each.revenue]));
  const today = Math.floor(seconds(figures.as_of) / DAY_S) * DAY_S;
  const all = Array.from({ length: 30 }, (_, n) => today - (29 - n) * DAY_S);
  get("days-caption").textContent = `${money(sum([...revenue.values()]), currency)} in thirty days`;
  charts.days(all, all.map((day) => revenue.get(day) ?? 0));
  fill("days-table", sold.toReversed().map((each) => [each.day, whole.format(each.orders), money(each.revenue, currency)]));
}

function products(best) {
  fill("products", best.map((each) => [each.name, whole.format(each.units), money(each.revenue, each.currency)]));
  get("products").querySelectorAll("tbody tr").forEach((row, n) => {
    const bar = Object.assign(document.createElement("span"), { className: "bar" });
    bar.style.transform = `scaleX(${best[n].revenue / (best[0].revenue || 1)})`;
    row.firstChild.append(bar);
  });
}

function fill(table, rows) {
  get(table).tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return row;
  }));
}

function say(state, words) {
  if (get("state").dataset.state === state) return; // a screen reader hears changes only
  get("state").dataset.state = state;
  get("state").textContent = words;
}

async function ask() {
  try {
    const answer = await fetch("/v1/summary", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    say("live", "Live");
  } catch (error) {
    say("lost", "No connection: trying again");
  }
}

async function watch() {
  if (!document.hidden) await ask();
  setTimeout(watch, EVERY_MS);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
watch();
