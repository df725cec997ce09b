// The page: one stream of samples, shown by every part in its own way.
import { showCharts, loadHistory } from "./charts.js";
import { showExperiments } from "./experiments.js";
import { showJournal } from "./journal.js";
import { showLedger } from "./ledger.js";
import { showLetters } from "./letters.js";
import { showNewest } from "./lives.js";
import { showNaive } from "./naive.js";
import { showPipeline } from "./pipeline.js";

const live = document.getElementById("live");
let before = null;

function say(state, words) {
  if (live.dataset.state === state) return; // a screen reader hears changes only
  live.dataset.state = state;
  live.textContent = words;
}

function show(sample) {
  const away = Object.entries(sample.servers).filter(([, state]) => state === "down").map(([name]) => name);
  say(away.length ? "lost" : "live", away.length ? `${away.join(", ")} away: figures are old` : "Live");
  if (!sample.ledger) return;
  showLedger(document.getElementById("ledger"), sample);
  showNaive(sample);
  showPipeline(sample, before);
  showExperiments(sample);
  showNewest(sample);
  showLetters(sample);
  showJournal(sample);
  showCharts(sample);
  before = sample;
}

function watch() {
  const stream = new EventSource("/v1/stream");
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.onerror = () => {
    say("lost", "No connection: trying again");
    if (stream.readyState === EventSource.CLOSED) setTimeout(watch, 2000); // it gives up after an error answer
  };
}

await loadHistory();
watch();
