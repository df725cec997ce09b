// Every press of the button is a request of its own, also the second of a double click (a browser alone would drop one).
// The page waits until all are answered and nobody presses any more, then shows what the server made of them.
const form = document.getElementById("confirm-form");
const PAUSE_MS = 400;
const presses = [];

async function ask() {
  const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.url; // where the redirect led
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  presses.push(ask());
  const sofar = presses.length;
  form.querySelector("button").textContent = sofar === 1 ? "Confirming…" : `Confirming… (pressed ${sofar} times)`;
  try {
    const [pages] = await Promise.all([Promise.all(presses), new Promise((done) => setTimeout(done, PAUSE_MS))]);
    if (sofar < presses.length) return; // a later press goes on from here
    location.assign(pages.find((page) => page.endsWith("seen=again")) ?? pages[0]);
  } catch {
    form.submit(); // The connection broke: ask again, the plain way. It is still one order.
  }
});
