// Requests to the control room. What changes something carries the header that only this page was given.
const token = document.querySelector('meta[name="csrf-token"]')?.content;

export const granted = token !== undefined;

async function answered(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail ?? `status ${response.status}`);
  return answer;
}

export const get = async (path) => answered(await fetch(path, { signal: AbortSignal.timeout(15000) }));

export const post = async (path, body = {}) =>
  answered(await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": token ?? "" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60000),
  }));

// Elements without markup in strings: whatever comes from an event is text.
export function make(tag, properties = {}, ...children) {
  const { data, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, data ?? {});
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const whole = new Intl.NumberFormat("en");
export const number = (n) => whole.format(n);
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
