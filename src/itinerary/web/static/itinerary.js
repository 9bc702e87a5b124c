// What the browser does: shows instants in the reader's zone, keeps the page up to date, and asks before it changes
// something. Without it every page can be read, and is as it was when it was asked for.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const day = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" });

function showInstants(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const isToday = at.toDateString() === new Date().toDateString();
    const form = time.dataset.form === "time" && isToday ? clock : day;
    const parts = time.dataset.form === "precise" ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "";
    time.textContent = form.format(at) + parts;
    time.title = `${time.dateTime} (shown in ${zone})`;
  }
}

// -- live ------------------------------------------------------------------------------------------------------------

const live = document.getElementById("live");
const trouble = document.getElementById("trouble");

function say(word, kind) {
  if (!live) return;
  if (live.textContent !== word) live.textContent = word;
  live.dataset.kind = kind;
}

function replacePart(name, html) {
  const part = document.getElementById(name);
  if (!part) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  if (focused && focused.matches("input, textarea, select")) return; // nobody is interrupted while typing
  const place = focused ? placeOf(part, focused) : null;
  const scrolled = [...part.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  const open = new Set([...part.querySelectorAll("details[open][id]")].map((element) => element.id));
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((box, index) => {
    if (scrolled[index]) [box.scrollLeft, box.scrollTop] = scrolled[index];
  });
  for (const element of part.querySelectorAll("details[id]")) if (open.has(element.id)) element.open = true;
  showInstants(part);
  if (place) focusAt(part, place);
  part.dispatchEvent(new CustomEvent("part", { bubbles: true }));
}

const FOCUSABLE = "a[href], button, summary, [tabindex]";

function placeOf(part, element) {
  if (element.id) return { id: element.id };
  if (element.matches("a[href]")) return { href: element.getAttribute("href") };
  return { index: [...part.querySelectorAll(FOCUSABLE)].indexOf(element) };
}

function focusAt(part, place) {
  let element = null;
  if (place.id) element = document.getElementById(place.id);
  else if (place.href) element = part.querySelector(`a[href="${CSS.escape(place.href)}"]`);
  else element = part.querySelectorAll(FOCUSABLE)[place.index];
  element?.focus({ preventScroll: true });
}

function follow() {
  const parts = [...document.querySelectorAll("[data-part]")];
  if (!parts.length || document.querySelector("form.login, form.action")) return;
  const address = new URL(location.href);
  address.hash = "";
  address.searchParams.set("seen", parts.map((part) => `${part.id}:${part.dataset.part}`).join(","));
  const events = new EventSource(address);
  events.addEventListener("open", () => say("live", "on"));
  events.addEventListener("error", () => say("not connected", "off"));
  events.addEventListener("over", (event) => {
    events.close();
    say(JSON.parse(event.data), "off");
  });
  events.addEventListener("parts", (event) => {
    const news = JSON.parse(event.data);
    if (Object.keys(news).some((name) => !document.getElementById(name))) return location.reload();
    for (const [name, html] of Object.entries(news)) replacePart(name, html);
    say("live", "on");
  });
  events.addEventListener("trouble", (event) => showTrouble(JSON.parse(event.data)));
  window.addEventListener("pagehide", () => events.close());
}

function showTrouble(found) {
  trouble.hidden = !found;
  if (!found) return;
  const since = document.getElementById("trouble-since");
  const at = document.createElement("time");
  at.dateTime = found.since;
  since.replaceChildren("Since ", at, `: ${found.why}`);
  showInstants(since);
  say("the store is away", "off");
}

// -- copying ---------------------------------------------------------------------------------------------------------

document.documentElement.dataset.script = "on";
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) return;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source); // where copying is not allowed, it is selected, and the keys do the rest
    button.textContent = "Selected";
  }
});

// -- light and dark --------------------------------------------------------------------------------------------------

document.getElementById("theme")?.addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* nothing is kept in this browser */ }
});

document.addEventListener("drawn", (event) => showInstants(event.target)); // what another script has put here
showInstants(document);
follow();
