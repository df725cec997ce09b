// Three charts of the last 15 minutes, drawn by uPlot in the page's own colours, with a mark for every fault.
/* global uPlot */
import { get } from "./api.js";

const SPAN_S = 900;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LINES = [
  { stroke: () => colour("--accent"), width: 2.5 },
  { stroke: () => colour("--ink"), width: 1.5 },
  { stroke: () => colour("--quiet"), width: 2, dash: [2, 4] },
];
const CHARTS = {
  "chart-rate": ["orders", "read_by_billing", "mails"],
  "chart-lag": ["lag_billing", "lag_analytics"],
  "chart-latency": ["mail_p50", "mail_p99"],
};
const rows = [];
let columns = [];
let marks = [];
let charts = null;

export async function loadHistory() {
  try {
    const history = await get("/v1/history");
    columns = history.columns;
    rows.push(...history.rows);
  } catch { /* the stream will tell; the charts begin empty */ }
}

export function showCharts(sample) {
  const { rates, lag, latency } = sample;
  if (!columns.length || rows.at(-1)?.[0] >= sample.at) return;
  const values = { at: sample.at, ...rates, lag_billing: lag.billing, lag_analytics: lag.analytics, ...latency };
  rows.push(columns.map((name) => values[name] ?? null));
  while (rows.length && rows[0][0] < sample.at - SPAN_S) rows.shift();
  marks = sample.journal.filter((entry) => entry.kind === "fault").map((entry) => entry.at);
  charts ??= Object.keys(CHARTS).map((id) => [id, create(document.getElementById(id), CHARTS[id].length)]);
  if (document.hidden) return;
  const times = rows.map((row) => row[0]);
  for (const [id, chart] of charts) {
    chart.setData([times, ...CHARTS[id].map((name) => rows.map((row) => row[columns.indexOf(name)]))]);
  }
}

function create(element, lines) {
  const font = `${0.75 * parseFloat(getComputedStyle(document.documentElement).fontSize)}px system-ui, sans-serif`;
  const axis = (more) => ({ stroke: () => colour("--quiet"), font, ticks: { show: false }, ...more });
  const chart = new uPlot({
    ...sizeOf(element),
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 18, 0, 0],
    scales: {
      x: { range: () => { const end = rows.at(-1)?.[0] ?? Date.now() / 1000; return [end - SPAN_S, end]; } },
      y: { range: (_, min, max) => [0, Math.max(max * 1.15, 1)] },
    },
    axes: [
      axis({ grid: { show: false }, space: 80, size: 28, values: (_, splits) => splits.map((s) => new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })) }),
      axis({ grid: { stroke: () => colour("--line"), width: 1 }, size: (_, values) => 14 + 8 * Math.max(1, ...(values ?? []).map((value) => String(value).length)) }),
    ],
    series: [{}, ...LINES.slice(0, lines).map((line) => ({ ...line, points: { show: false }, spanGaps: false }))],
    hooks: { draw: [drawMarks] },
  }, [[], ...Array.from({ length: lines }, () => [])], element);
  new ResizeObserver(() => chart.setSize(sizeOf(element))).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
  return chart;
}

function drawMarks(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = colour("--broken");
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = devicePixelRatio;
  for (const at of marks) {
    const x = chart.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

const sizeOf = (element) => ({ width: Math.max(element.clientWidth, 100), height: Math.max(element.clientHeight, 80) });
