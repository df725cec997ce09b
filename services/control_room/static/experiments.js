// Break it: every fault says beforehand what should happen, and afterwards what did, read from the ledger.
import { get, granted, make, number, post } from "./api.js";
import { both } from "./naive.js";

const POISONS = { invalid: "breaks its contract", undecodable: "not JSON", "unknown-type": "unknown type", "too-large": "too large", null: "a null value" };
const ACTIONS = { kill: "kill -9", "pause:10": "sleep 10 s", error: "raise an error" };

// `kept(delta, sample)` → true when what was promised has happened; delta is the ledger's change since the button.
const EXPERIMENTS = [
  {
    id: "orders", title: "Place orders", promise: "Each gets one invoice, one PDF, one mail and one count.",
    buttons: { 1: "1", 10: "10", 100: "100" },
    run: (count) => post("/v1/orders", { count: Number(count), ...both() }).then(() => ({ orders: Number(count) })),
    kept: (delta, sample, done) => delta.orders >= done.orders && sample.verdict.kind === "equal",
    shown: ["orders", "invoices", "mails", "counted"],
  },
  {
    id: "duplicate", title: "Publish an event 100 times", promise: "Deliveries grow by 100; invoices, mails and counts by 0.",
    buttons: { 100: "Publish the newest order’s event" },
    run: (times) => post("/v1/faults/duplicate", { times: Number(times), ...both() }),
    kept: (delta, sample, done) => delta.delivered >= done.records && delta.invoices === delta.orders && settled(sample),
    shown: ["delivered", "duplicates", "invoices", "mails"],
  },
  {
    id: "replay", title: "Replay the topic", promise: "Everything is delivered once more, and nothing happens twice.",
    buttons: { 1000: "Replay the last 1,000 records" },
    run: (last) => post("/v1/faults/replay", { last: Number(last) }),
    kept: (delta, sample, done) => delta.delivered > 0 && settled(sample) && delta.delivered + delta.letters >= done.records / 2,
    shown: ["delivered", "duplicates", "invoices", "counted"],
  },
  {
    id: "poison", title: "Send a poison event", promise: "It is parked as a dead letter, and the events behind it do not wait.",
    choice: ["kind of poison", POISONS], buttons: { go: "Send" },
    run: (_, poison) => post("/v1/faults/poison", { poison }),
    kept: (delta, sample) => delta.letters >= 1 && settled(sample),
    shown: ["letters", "invoices"],
  },
  {
    id: "tamper", title: "Tamper with a payload", promise: "A known id with other bytes is an incident: parked, never taken for a duplicate.",
    buttons: { go: "Change an amount on its way" },
    run: () => post("/v1/faults/tamper"),
    kept: (delta, sample) => delta.letters >= 1 && settled(sample),
    shown: ["letters", "invoices"],
  },
  {
    id: "late", title: "Send an event from last year", promise: "The inbox cannot know whether it has seen it, so it is parked, not applied.",
    buttons: { go: "Send" },
    run: () => post("/v1/faults/late"),
    kept: (delta, sample) => delta.letters >= 1 && settled(sample),
    shown: ["letters", "invoices"],
  },
  {
    id: "kill", title: "Kill a process", promise: "It turns red and its work waits; it comes back, and the ledger is equal again.",
    choice: ["process", {}], buttons: { go: "kill -9" },
    run: async (_, process) => ({ process, before: restarts(latest, process), ...(await post("/v1/faults/kill", { process, ...both() })) }),
    kept: (delta, sample, done) => restarts(sample, done.process) > done.before && sample.verdict.kind === "equal",
    says: (sample, done) => `${done.process}: ${sample.processes[done.process]?.state ?? "down"}`,
    shown: ["orders", "invoices"],
  },
  {
    id: "failpoint", title: "Die at the worst moment", promise: "Armed, then three orders are placed: the process fails exactly there, and the ledger is equal again.",
    choice: ["failpoint", {}], second: ["what happens there", ACTIONS], buttons: { go: "Arm" },
    run: async (_, name, action) => {
      await post("/v1/faults/failpoint", { name, action });
      if (!/redrive|reconciler|housekeeping/.test(name)) await post("/v1/orders", { count: 3 });
      return { name };
    },
    check: async (done) => ({ fired: !Object.values((await get("/v1/failpoints")).armed).some((armed) => done.name in armed) }),
    kept: (delta, sample, done) => done.fired && sample.verdict.kind === "equal",
    says: (sample, done) => (done.fired ? "fired" : "armed, waits for its moment"),
    shown: ["orders", "delivered", "invoices", "mails"],
  },
];

const NAMES = { orders: "orders", delivered: "deliveries", duplicates: "suppressed", invoices: "invoices", mails: "mails", counted: "counted", letters: "dead letters" };
const GIVE_UP_MS = 180_000;
const running = new Map();
let latest = null;

const settled = (sample) => !["flight", "counting"].includes(sample.verdict.kind);
const restarts = (sample, process) => sample?.processes[process]?.restarts ?? 0;
const counts = (sample) => ({ ...sample.ledger, letters: sample.letters.billing });

export function showExperiments(sample) {
  if (!granted) return;
  if (!latest) build(sample);
  latest = sample;
  for (const [id, trial] of running) follow(id, trial, sample);
}

// --- the cards ---

function build(sample) {
  const box = document.getElementById("experiments");
  box.append(...EXPERIMENTS.map(card));
  offer("kill", Object.fromEntries(Object.keys(sample.processes).map((name) => [name, name])), "billing-consumer");
  get("/v1/failpoints").then(({ failpoints }) => {
    offer("failpoint", Object.fromEntries(failpoints.map((each) => [each.name, `${each.name}: ${each.when}`])), "billing.consumer.after_commit");
  });
}

function card(experiment) {
  const { id, title, promise, choice, second, buttons } = experiment;
  const selects = [choice, second].filter(Boolean).map(([label, options]) => select(label, options));
  const controls = make("div", { className: "controls" }, ...selects, ...Object.entries(buttons).map(([value, text]) => {
    const className = id === "orders" ? "" : "plain";
    const button = make("button", { type: "button", className, textContent: text, data: { run: id, value } });
    if (id === "orders") button.setAttribute("aria-label", `Place ${text}`);
    button.addEventListener("click", () => start(experiment, value, selects.map((each) => each.value)));
    return button;
  }));
  return make("article", { className: "experiment", data: { experiment: id } },
    make("h3", { textContent: title }), make("p", { className: "quiet", textContent: promise }), controls,
    make("p", { className: "outcome", role: "status", hidden: true }));
}

function select(label, options) {
  const box = make("select");
  box.setAttribute("aria-label", label);
  box.append(...Object.entries(options).map(([value, textContent]) => make("option", { value, textContent })));
  return box;
}

function offer(id, options, chosen) {
  const box = document.querySelector(`[data-experiment="${id}"] select`);
  box.append(...Object.entries(options).map(([value, textContent]) => make("option", { value, textContent, selected: value === chosen })));
}

// --- running one, and saying what came of it ---

async function start(experiment, value, choices) {
  const outcome = document.querySelector(`[data-experiment="${experiment.id}"] .outcome`);
  const buttons = document.querySelectorAll(`[data-run="${experiment.id}"]`);
  const trial = { experiment, outcome, before: counts(latest), began: performance.now(), done: null, checking: false };
  running.set(experiment.id, trial);
  outcome.hidden = false;
  say(outcome, "", "Doing it", "");
  buttons.forEach((button) => { button.disabled = true; });
  try {
    trial.done = await experiment.run(value, ...choices);
  } catch (error) {
    running.delete(experiment.id);
    say(outcome, "no", "Not done", error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

function follow(id, trial, sample) {
  const { experiment, done, before, outcome } = trial;
  if (!done) return;
  if (experiment.check && !done.fired && !trial.checking) {
    trial.checking = true;
    experiment.check(done).then((news) => Object.assign(done, news)).finally(() => { trial.checking = false; });
  }
  const now = counts(sample);
  const delta = Object.fromEntries(Object.keys(now).map((name) => [name, now[name] - before[name]]));
  const changes = experiment.shown.map((name) => `${NAMES[name]} ${delta[name] > 0 ? "+" : "±"}${number(delta[name])}`).join(" · ");
  const words = [experiment.says?.(sample, done), changes].filter(Boolean).join(" · ");
  const late = performance.now() - trial.began > GIVE_UP_MS;
  if (experiment.kept(delta, sample, done)) {
    say(outcome, "yes", "As promised", words);
    running.delete(id);
  } else {
    say(outcome, late ? "no" : "", late ? "Not within three minutes" : "So far", words);
    if (late) running.delete(id);
  }
}

function say(outcome, kept, verdict, words) {
  outcome.dataset.kept = kept;
  outcome.replaceChildren(make("b", { textContent: verdict }), words ? `: ${words}` : "");
}
