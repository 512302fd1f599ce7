"use strict";

// What the scripts of several pages use. No text becomes HTML.
const by = (id) => document.getElementById(id);
// Characters that are invisible or move others are written as their numbers.
const hidden = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]/gu;
const visible = (text) => String(text ?? "").replace(hidden, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
const whole = (number) => (Number(number) || 0).toLocaleString("en");
const plural = (number, noun) => whole(number) + " " + noun + (number === 1 ? "" : "s");
const compact = (number) => number.toLocaleString("en", { notation: "compact" });
const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

// Elements change only where they differ: what has the focus or is selected stays.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
const SVG = "http://www.w3.org/2000/svg";
function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}
// A row for each item. A cell is a text, an element, or a function that fills the cell.
function rows(body, items, id, cells) {
  const old = new Map([...body.rows].map((row) => [row.dataset.id, row]));
  const seen = new Set();
  items.forEach((item) => {
    const name = id(item);
    // Two rows of one name would be made anew with each poll.
    if (seen.has(name)) return;
    const place = seen.size;
    seen.add(name);
    const row = old.get(name) ?? make("tr", { role: "row" });
    old.delete(name);
    row.dataset.id = name;
    const contents = cells(item, row);
    contents.forEach((content, at) => {
      let cell = row.cells[at];
      if (!cell) {
        cell = at === 0 ? make("th", { scope: "row", role: "rowheader" }) : make("td", { role: "cell" });
        const heading = body.parentElement.tHead.rows[0].cells[at];
        if (heading.classList.contains("n")) cell.classList.add("n");
        // A card has no row of headings.
        if (!heading.querySelector(".hidden")) cell.dataset.label = heading.textContent;
        row.append(cell);
      }
      if (typeof content === "function") content(cell);
      else write(cell, content);
    });
    if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
  });
  old.forEach((row) => row.remove());
}
// Browsers forget what a table is if its style makes cards of the rows.
const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TH: "columnheader" };
for (const part of document.querySelectorAll("table, thead, tbody, tr, th")) part.role = ROLES[part.tagName];
function options(select, names) {
  const shown = [...select.options].map((option) => option.value);
  if (shown.join("\n") === names.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => make("option", { value: name, textContent: visible(name) })));
  if (names.includes(chosen)) select.value = chosen;
}
// The end of the axis: its half is a whole number.
function nice(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  const steps = [1, 2, 3, 4, 6, 8, 10].map((step) => step * power);
  return steps.find((step) => step >= number && step % 2 === 0) ?? 2;
}
