"use strict";

// The timeline: the numbers of the interval below the pointer, from the table behind the chart.
for (const panel of document.querySelectorAll("[data-cursor]")) {
  const rows = panel.querySelector("tbody").rows;
  const names = panel.querySelectorAll("thead th");
  const readout = panel.querySelector(".readout");
  const plots = panel.querySelectorAll(".plot");
  const cursors = panel.querySelectorAll(".cursor");

  const show = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * rows.length);
    const row = rows[Math.min(Math.max(index, 0), rows.length - 1)];
    if (!row) return;
    const [start, ...numbers] = row.cells;
    const parts = numbers.map((cell, at) => cell.textContent + " " + names[at + 1].textContent.toLowerCase());
    readout.textContent = start.textContent + ": " + parts.join(" · ");
    for (const cursor of cursors) {
      const place = ((row.sectionRowIndex + 0.5) / rows.length) * 100 + "%";
      cursor.setAttribute("x1", place);
      cursor.setAttribute("x2", place);
      cursor.classList.add("shown");
    }
  };
  const hide = () => {
    readout.textContent = "\u00a0";
    for (const cursor of cursors) cursor.classList.remove("shown");
  };
  for (const plot of plots) {
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
  }
}

// Other quotas: the slider chooses a row of the table behind the chart.
for (const panel of document.querySelectorAll("[data-what-if]")) {
  const slider = panel.querySelector("input");
  const rows = panel.querySelector("tbody").rows;
  const sentence = panel.querySelector(".would");
  const marker = panel.querySelector(".marker");
  const buttons = [];

  const show = () => {
    const row = rows[slider.valueAsNumber];
    const [quota, refused, refusedShare, actors, actorsShare] = [...row.cells].map((cell) => cell.textContent);
    const noun = (count, one) => (count === "1" ? one : one + "s");
    const [refusedNoun, actorsNoun] = [noun(refused, "request"), noun(actors, "actor")];
    const texts = { quota, refused, refusedNoun, refusedShare, actors, actorsNoun, actorsShare };
    for (const [name, text] of Object.entries(texts)) {
      for (const element of sentence.querySelectorAll("span")) {
        if (name in element.dataset) element.textContent = text;
      }
    }
    slider.setAttribute("aria-valuetext", sentence.textContent);
    const line = marker.querySelector("line");
    line.setAttribute("x1", row.dataset.x);
    line.setAttribute("x2", row.dataset.x);
    for (const name of ["requests", "actors"]) {
      const dot = marker.querySelector("." + name + "-dot");
      dot.setAttribute("cx", row.dataset.x);
      dot.setAttribute("cy", row.dataset[name + "Y"]);
    }
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.parentElement.dataset.to === slider.value));
    }
  };

  for (const entry of panel.querySelectorAll("[data-to]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...entry.childNodes);
    entry.append(button);
    button.addEventListener("click", () => {
      slider.value = entry.dataset.to;
      show();
    });
    buttons.push(button);
  }
  slider.addEventListener("input", show);
  panel.querySelector(".slider").hidden = false;
  show();
}
