// Actions in a dialog: a link to a form is opened where the reader is, and the page stays. The form is the page's own,
// so without this everything works as well, one page further.

const HEADER = { "X-Itinerary-Dialog": "1", "Accept": "text/html" };
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

// -- fields for a date and a time: in the reader's zone here, and an instant when they are sent --------------------------

const pad = (number) => String(number).padStart(2, "0");

function localValue(utc) {
  const at = new Date(`${utc}Z`);
  if (Number.isNaN(at.getTime())) return utc;
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

function prepare(form) {
  const fields = [...form.querySelectorAll('input[type="datetime-local"]')];
  for (const field of fields) if (field.value) field.value = localValue(field.value);
  for (const words of form.querySelectorAll(".zone")) words.textContent = `(${zone})`;
  form.addEventListener("formdata", (event) => {
    for (const field of fields) {
      if (field.value) event.formData.set(field.name, new Date(field.value).toISOString());
    }
  });
}

// -- the dialog --------------------------------------------------------------------------------------------------------

function formIn(text) {
  return new DOMParser().parseFromString(text, "text/html").querySelector("form.action");
}

async function open(link) {
  const address = link.getAttribute("href");
  const answer = await fetch(address, { headers: HEADER });
  const form = answer.ok ? formIn(await answer.text()) : null;
  if (!form) return location.assign(address); // the page says what is the matter
  const dialog = document.createElement("dialog");
  dialog.className = "asks";
  dialog.setAttribute("aria-labelledby", "asks-title");
  const title = document.createElement("h2");
  title.id = "asks-title";
  title.textContent = form.dataset.title;
  dialog.append(title, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    const again = link.isConnected ? link : document.querySelector(`a[href="${CSS.escape(address)}"]`);
    again?.focus({ preventScroll: true });
  });
  take(dialog, form);
  dialog.showModal();
  form.querySelector("input:not([type=hidden]), select, button")?.focus();
}

function take(dialog, form) {
  prepare(form);
  form.dispatchEvent(new CustomEvent("drawn", { bubbles: true }));
  form.querySelector(".leaves")?.addEventListener("click", (event) => {
    event.preventDefault();
    dialog.close();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form, event.submitter);
    const buttons = [...form.querySelectorAll("button")];
    for (const button of buttons) button.disabled = true;
    try {
      await send(dialog, form, data);
    } catch (error) {
      complain(form, `It was not sent: ${error.message}. Try again: it is one change, however often it is sent.`);
    }
    for (const button of buttons) button.disabled = false;
  });
}

async function send(dialog, form, data) {
  const answer = await fetch(form.action, { method: "POST", headers: HEADER, body: new URLSearchParams(data) });
  const text = await answer.text();
  if (answer.headers.get("content-type")?.startsWith("application/json")) {
    const onward = new URL(JSON.parse(text).go, location.href);
    if (onward.href === location.href) location.reload();
    else location.assign(onward);
    return;
  }
  const next = formIn(text);
  if (!next) {
    const page = new DOMParser().parseFromString(text, "text/html");
    return complain(form, page.querySelector("main p")?.textContent ?? `${answer.status} ${answer.statusText}`);
  }
  form.replaceWith(next);
  take(dialog, next);
  next.querySelector('[role="alert"], [role="status"]')?.focus();
}

function complain(form, words) {
  let place = form.querySelector('[role="alert"]');
  if (!place) {
    place = document.createElement("p");
    place.className = "error";
    place.setAttribute("role", "alert");
    form.querySelector(".sentence").after(place);
  }
  place.textContent = words;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a.operates[href^="/actions/"]');
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  open(link).catch(() => location.assign(link.href));
});

for (const form of document.querySelectorAll("form.action, form.audited")) prepare(form);
