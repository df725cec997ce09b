// Dead letters: what, why, the bytes, and the three decisions.
import { get, granted, make, number, post } from "./api.js";

const note = document.getElementById("letters-note");
const list = document.getElementById("letter-list");
const TOLD = note.textContent;
let seen = "";

export function showLetters({ letters }) {
  const now = `${letters.billing} ${letters.analytics}`;
  if (now === seen) return;
  seen = now;
  const open = letters.billing + letters.analytics;
  note.textContent = open ? `${number(letters.billing)} of Billing and ${number(letters.analytics)} of Analytics wait for a decision.` : TOLD;
  if (granted) refresh();
}

async function refresh() {
  try {
    const { letters } = await get("/v1/letters");
    const known = new Map([...list.children].map((item) => [item.dataset.letter, item]));
    list.replaceChildren(...letters.map((letter) => known.get(`${letter.consumer}-${letter.id}`) ?? item(letter)));
  } catch (error) {
    note.textContent = `The letters could not be read: ${error.message}`;
    seen = "";
  }
}

function item(letter) {
  const summary = make("summary", {},
    make("b", { textContent: letter.reason }), make("span", { className: "quiet", textContent: `${letter.consumer} ${letter.id}` }),
    make("span", { className: "quiet", textContent: letter.error }));
  const body = make("div", { className: "body" });
  const details = make("details", { data: { letter: `${letter.consumer}-${letter.id}`, reason: letter.reason } }, summary, body);
  details.addEventListener("toggle", () => { if (details.open && !body.children.length) fill(body, letter, details); });
  return details;
}

async function fill(body, letter, details) {
  const whole = await get(`/v1/letters/${letter.consumer}/${letter.id}`);
  const place = `partition ${whole.partition}, offset ${whole.offset}, ${number(whole.bytes ?? 0)} bytes${whole.event_id ? `, event ${whole.event_id}` : ""}`;
  body.replaceChildren(make("p", { className: "quiet", textContent: place }), make("pre", { textContent: pretty(whole.value) }));
  body.append(...decisions(whole, details));
}

function decisions(letter, details) {
  const said = make("p", { className: "said", role: "status" });
  const decide = async (action, body) => {
    try {
      const { result } = await post(`/v1/letters/${letter.consumer}/${letter.id}/${action}`, body);
      said.textContent = action === "repair" ? "Repaired. Now redrive it." : `Done: ${result}.`;
      delete said.dataset.bad;
      if (action !== "repair") { details.dataset.decided = result; seen = ""; }
    } catch (error) {
      said.textContent = error.message;
      said.dataset.bad = "";
    }
  };
  const text = make("textarea", { value: pretty(letter.repaired_value ?? letter.original ?? letter.value), spellcheck: false });
  text.setAttribute("aria-label", "The corrected event");
  const why = make("input", { value: "seen in the control room, not needed" });
  why.setAttribute("aria-label", "Why it is discarded");
  const button = (name, run, className = "plain") => {
    const made = make("button", { type: "button", className, textContent: name });
    made.addEventListener("click", run);
    return made;
  };
  const repairable = letter.reason !== "payload-mismatch" && letter.event_id;
  return [
    repairable ? text : null,
    make("div", { className: "controls" },
      repairable ? button("Repair", () => decide("repair", { value: compact(text.value) })) : null,
      letter.reason === "payload-mismatch" ? null : button("Redrive", () => decide("redrive", { accept_late: letter.reason === "beyond-dedupe-window" })),
      button("Discard", () => decide("discard", { why: why.value })), why),
    said,
  ].filter(Boolean);
}

// The original's bytes are compact JSON: a repaired copy that differs only in spaces would be another payload.
function compact(text) {
  try { return JSON.stringify(JSON.parse(text)); } catch { return text; }
}

function pretty(text) {
  if (text === null || text === undefined) return "(null)";
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
