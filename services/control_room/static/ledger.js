// The ledger: orders on one side, effects on the other. `root` is a parameter, so that two shops can stand side by side.
import { number } from "./api.js";

const EQUAL = ["invoices", "pdfs", "mails", "counted"];

export function showLedger(root, { ledger, verdict, mailbox }) {
  root.dataset.verdict = verdict.kind;
  write(root.querySelector("h2"), verdict.says);
  write(root.querySelector("#verdict-detail"), detail(ledger, verdict, mailbox));
  for (const box of root.querySelectorAll("[data-count]")) {
    const name = box.dataset.count;
    write(box.querySelector("dd"), number(ledger[name]));
    const off = EQUAL.includes(name) ? ledger[name] - ledger.orders : 0;
    const term = box.querySelector("dt");
    if (off < 0) term.dataset.off = `${number(-off)} to come`;
    else if (off > 0 && verdict.kind === "differs") term.dataset.off = `${number(off)} too many`;
    else delete term.dataset.off;
  }
}

function detail(ledger, verdict, mailbox) {
  if (verdict.kind === "equal" && ledger.orders > 0) {
    const doubt = mailbox.unknown_outcomes;
    const repeated = doubt ? ` ${number(doubt)} × a crash hid whether the mail server took a mail: sent again under the same Message-ID.` : "";
    const refused = ledger.undeliverable ? ` ${number(ledger.undeliverable)} address(es) refused.` : "";
    return `Every order has one invoice, one PDF, one mail and one count; ${number(ledger.duplicates)} copies had no effect.${repeated}${refused}`;
  }
  return verdict.kind === "equal" ? "Place an order to see it travel." : "Deliveries may exceed orders. Everything after the inbox must equal them.";
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
