// What a person with a keyboard, a screen reader or weak eyes would trip over: a list of sentences, empty if all is well.
() => {
  const found = [];
  const say = (element, what) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const isShown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(isShown);

  // -- names -------------------------------------------------------------------------------------------------------
  const nameOf = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    const words = [
      element.getAttribute("aria-label"),
      ...labelled.map((id) => document.getElementById(id)?.textContent),
      ...[...(element.labels ?? [])].map((label) => label.textContent),
      element.matches("svg") ? element.querySelector(":scope > title")?.textContent : null,
      element.matches("a, button, summary, [role=button]") ? element.textContent : null,
      element.getAttribute("alt"),
    ];
    return words.map((word) => (word ?? "").trim()).find(Boolean) ?? "";
  };
  for (const element of all("a[href], button, summary, input:not([type=hidden]), select, textarea, progress")) {
    if (!nameOf(element)) say(element, "has no name");
  }
  for (const element of all("svg").filter((picture) => !picture.parentElement.closest("svg"))) {
    const isTold = ["img", "group"].includes(element.getAttribute("role")) && nameOf(element); // a group has links in it
    if (!isTold && !element.closest("[aria-hidden=true]")) say(element, "a picture without words");
  }
  for (const element of all("img")) if (!element.hasAttribute("alt")) say(element, "an image without words");

  // -- landmarks, headings, ids ------------------------------------------------------------------------------------
  if (!document.documentElement.lang) found.push("the page does not say its language");
  if (!document.title.trim()) found.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1) found.push("there is not one main part");
  if (document.querySelectorAll("h1").length !== 1) found.push("there is not one first heading");
  for (const element of all("nav")) if (!nameOf(element)) say(element, "a landmark without a name");
  let level = 0;
  for (const element of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(element.tagName[1]);
    if (own > level + 1) say(element, `a heading of level ${own} after one of level ${level}`);
    if (!element.textContent.trim()) say(element, "an empty heading");
    level = own;
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) found.push(`two things are called ${id}`);
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls]")) {
    for (const name of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
      for (const id of (element.getAttribute(name) ?? "").split(/\s+/).filter(Boolean)) {
        if (!document.getElementById(id)) say(element, `${name} points to nothing`);
      }
    }
  }
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) say(element, "an order of its own");
  for (const element of all("label[for]")) if (!document.getElementById(element.htmlFor)) say(element, "a label of nothing");

  // -- tables and lists --------------------------------------------------------------------------------------------
  for (const table of all("table")) {
    if (!table.querySelector("th[scope=col]")) say(table, "a table without headers");
    for (const header of table.querySelectorAll("th")) if (!header.scope) say(header, "a header that does not say of what");
  }
  for (const element of all("ul > *, ol > *")) if (!element.matches("li, script, template")) say(element, "in a list, and no item");

  // -- contrast ----------------------------------------------------------------------------------------------------
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const colour = (text) => {
    if (!colours.has(text)) colours.set(text, painted(text));
    return colours.get(text);
  };
  const painted = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const grounds = new Map();
  const groundOf = (element) => {
    if (!grounds.has(element)) grounds.set(element, layered(element));
    return grounds.get(element);
  };
  const layered = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const own = colour(getComputedStyle(at).backgroundColor);
      if (own[3] > 0) layers.push(own);
      if (own[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [bright, dark] = [light(one), light(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dark + 0.05);
  };
  const told = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || told.has(element) || !isShown(element)) continue;
    told.add(element);
    if (element.closest("script, style, title, option, [aria-hidden=true], :disabled")) continue;
    const style = getComputedStyle(element);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    const ground = groundOf(element.closest("svg")?.parentElement ?? element);
    const ink = over(colour(element.closest("svg") ? style.fill : style.color), ground);
    const reached = contrast(ink, ground);
    if (reached < (isLarge ? 3 : 4.5)) say(element, `contrast ${reached.toFixed(2)}`);
  }
  return found;
}
