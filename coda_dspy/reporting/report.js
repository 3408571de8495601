"use strict";
// Filters, search, and the content of questions. Whatever an engine said gets into the page by textContent only.
(() => {
  const form = document.getElementById("filters");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const search = form.elements.search;
  const searched = read(document.getElementById("searched")).map((text) => text.toLowerCase());
  const rows = [...document.querySelectorAll("#questions > details")].map((element, position) => ({
    element,
    text: searched[position],
    flags: new Set(element.dataset.flags.split(" ")),
  }));

  function read(script) {
    return JSON.parse(script.textContent);
  }

  // Each count says how many questions would be shown with that filter, beside those that are on.
  function show() {
    const wanted = search.value.trim().toLowerCase();
    const on = boxes.filter((box) => box.checked).map((box) => box.name);
    const passing = rows.filter((row) => row.text.includes(wanted) && on.every((name) => row.flags.has(name)));
    for (const row of rows) row.element.hidden = true;
    for (const row of passing) row.element.hidden = false;
    for (const box of boxes) {
      const count = passing.filter((row) => row.flags.has(box.name)).length;
      box.parentElement.querySelector(".count").textContent = `(${count})`;
    }
    document.getElementById("shown").textContent = `${passing.length} of ${rows.length} shown`;
  }

  // The address says what is shown, so that it can be sent to somebody: #wrong&search=7&question=q7
  function fromAddress() {
    const address = new URLSearchParams(location.hash.slice(1));
    for (const box of boxes) box.checked = address.has(box.name);
    search.value = address.get("search") ?? "";
    show();
    const linked = rows.find((row) => row.element.dataset.name === address.get("question"));
    if (linked) {
      fill(linked.element);
      linked.element.open = true;
      linked.element.scrollIntoView();
    }
  }

  function toAddress() {
    const parts = boxes.filter((box) => box.checked).map((box) => box.name);
    if (search.value) parts.push(`search=${encodeURIComponent(search.value)}`);
    history.replaceState(null, "", `#${parts.join("&")}`);
  }

  function made(name, text = "", className = "") {
    const element = document.createElement(name);
    element.textContent = text;
    element.className = className;
    return element;
  }

  // The content of a question, made when it is first opened: a thousand of them would be slow to lay out.
  function fill(question) {
    const script = question.querySelector("script");
    if (!script) return;
    const link = made("a", "link to this question", "link");
    link.href = `#question=${encodeURIComponent(question.dataset.name)}`;
    question.append(link, ...read(script).map((part) => (part.columns ? table(part) : passage(part))));
    script.remove();
  }

  function passage(part) {
    const details = made("details", "", part.failed ? "passage failed" : "passage");
    const summary = made("summary");
    const beginning = part.text.slice(0, 200).replace(/\s+/g, " ");
    summary.append(made("b", part.title), made("span", beginning, "beginning"));
    const text = made("pre", part.text);
    text.tabIndex = 0;
    details.append(summary, text);
    details.open = part.open;
    return details;
  }

  function table(part) {
    const wide = made("div", "", "wide");
    wide.tabIndex = 0;
    const grid = made("table");
    grid.append(made("caption", part.title));
    const head = grid.createTHead().insertRow();
    for (const column of part.columns) head.append(made("th", column));
    const body = grid.createTBody();
    for (const cells of part.rows) body.insertRow().append(...cells.map((cell) => made("td", cell)));
    wide.append(grid);
    return wide;
  }

  form.addEventListener("input", () => {
    show();
    toAddress();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", fromAddress);
  // "toggle" does not bubble, but it can be caught on its way down.
  document.getElementById("questions").addEventListener(
    "toggle",
    (event) => {
      if (event.target.open && event.target.matches("#questions > details")) fill(event.target);
    },
    true,
  );
  form.hidden = false;
  fromAddress();
})();
