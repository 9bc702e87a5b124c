// What moves by itself between two messages of the server: how long something has run, and the line of now.

function spell(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

const hours = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit" });
const days = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });

function labelTicks() {
  for (const text of document.querySelectorAll("text[data-at]")) {
    const at = new Date(text.dataset.at);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
    if (text.dataset.tick === "time") text.textContent = isMidnight ? days.format(at) : hours.format(at);
    else text.textContent = isMidnight ? days.format(at) : `${days.format(at)} ${hours.format(at)}`;
  }
}

function move() {
  labelTicks();
  const now = Date.now();
  for (const text of document.querySelectorAll(".elapsed[data-since]")) {
    text.textContent = spell(Math.max((now - Date.parse(text.dataset.since)) / 1000, 0));
  }
  for (const bar of document.querySelectorAll("rect.grows")) {
    const seconds = Math.max((now - Date.parse(bar.dataset.since)) / 1000, 0);
    const share = Math.min(seconds / Number(bar.dataset.whole), 1);
    bar.setAttribute("width", (share * Number(bar.dataset.width)).toFixed(1));
    bar.classList.toggle("grows-long", seconds > Number(bar.dataset.long));
  }
  for (const line of document.querySelectorAll("[data-now-from]")) {
    const from = Number(line.dataset.nowFrom), to = Number(line.dataset.nowTo);
    const share = (now - from) / (to - from);
    const x = `${(Math.min(Math.max(share, 0), 1) * 100).toFixed(2)}%`;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }
}

move();
setInterval(move, 1000);
document.addEventListener("part", move);

// -- keys on the timeline --------------------------------------------------------------------------------------------

const KEYS = { ArrowLeft: "earlier", ArrowRight: "later", "+": "closer", "=": "closer", "-": "wider", "0": "today" };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, .scroll")) return;
  const link = KEYS[event.key] && document.querySelector(`[data-key="${KEYS[event.key]}"]`);
  if (!link) return;
  event.preventDefault();
  location.assign(link.href);
});
