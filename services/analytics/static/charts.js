// Bar charts over time, drawn by uPlot in the page's own colours.
/* global uPlot */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");

function axis(more) {
  return {
    stroke: () => colour("--quiet"),
    font: `${0.8 * parseFloat(getComputedStyle(document.documentElement).fontSize)}px system-ui, sans-serif`,
    grid: { show: false },
    ticks: { show: false },
    ...more,
  };
}

// `step` is the width of a bar on the time axis, in seconds; `label` writes a value of the vertical axis, `value` the one
// under the pointer.
export function barChart(element, { step, label, moment, value = label }) {
  const pointed = element.appendChild(Object.assign(document.createElement("p"), { className: "pointed" }));
  const options = {
    ...sizeOf(element),
    tzDate: utc,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    padding: [8, 20, 0, 0],
    scales: {
      x: { range: (_, min, max) => [min - step / 2, max + step / 2] },
      y: { range: (_, min, max) => [0, Math.max(max * 1.1, 4)] },
    },
    axes: [
      axis({ values: (_, splits) => splits.map(moment), space: 70, size: 32, gap: 10 }),
      axis({
        grid: { stroke: () => colour("--line"), width: 1 },
        values: (_, splits) => splits.map(label),
        space: 34,
        size: (_, values) => 14 + 8 * Math.max(0, ...(values ?? []).map((value) => String(value).length)),
        incrs: [1, 2, 5].flatMap((n) => Array.from({ length: 13 }, (_, power) => n * 10 ** power)).sort((a, b) => a - b),
      }),
    ],
    series: [
      {},
      {
        fill: () => colour("--accent"),
        paths: uPlot.paths.bars({ size: [0.72, 40], radius: 0.15 }),
        points: { show: false },
      },
    ],
  };
  options.hooks = {
    setCursor: [({ cursor: { idx }, data: [times, values] }) => {
      pointed.textContent = idx == null ? "" : `${moment(times[idx])}: ${value(values[idx])}`;
    }],
  };
  const chart = new uPlot(options, [[], []], element);
  new ResizeObserver(() => chart.setSize(sizeOf(element))).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
  return (times, values) => chart.setData([times, values]);
}

const sizeOf = (element) => ({ width: Math.max(element.clientWidth, 100), height: Math.max(element.clientHeight, 100) });
