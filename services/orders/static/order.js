// Follows a confirmed order: asks Billing about its invoice until the e-mail is out (or cannot be delivered).
const steps = document.getElementById("steps");
const { order, billing } = steps.dataset;
const ENDED = { sent: true, undeliverable: true };

function show(id, state, ...content) {
  const step = document.getElementById(id);
  step.className = state;
  if (content.length) step.querySelector("span").replaceChildren(...content);
}

function link(href, text) {
  const made = document.createElement("a");
  Object.assign(made, { href, textContent: text, id: "pdf" });
  return made;
}

function display(invoice) {
  const pdf = invoice.pdf_url ? [" · ", link(new URL(invoice.pdf_url, billing).href, "Open the PDF")] : [];
  show("invoiced", "done", `No. ${invoice.number}`, ...pdf);
  if (invoice.state === "sent") show("emailed", "done");
  else if (invoice.state === "undeliverable") show("emailed", "failed", "The address does not take it.");
  else show("emailed", "now");
}

async function follow(pause) {
  let invoice = null;
  try {
    const answer = await fetch(`${billing}/v1/orders/${order}/invoice`, { headers: { Accept: "application/json" } });
    invoice = answer.ok ? await answer.json() : null;
  } catch {
    // Billing is away for a moment; it will be back, and so will the invoice.
  }
  if (invoice) display(invoice);
  if (!ENDED[invoice?.state]) setTimeout(follow, pause, Math.min(pause * 1.3, 5000));
}

follow(500);
