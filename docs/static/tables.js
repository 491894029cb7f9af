/* Long tables show their first rows, and a box that filters all of them by words. Without a script, or
   where the Markdown is read, all rows are there. */
"use strict";

const LONG_ROWS = 30;
const SHOWN_ROWS = 12;

function filterTable(table) {
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = `Filter ${rows.length} rows, for example: contradicts attention`;
  box.setAttribute("aria-label", "Filter the rows of the table below");
  const told = document.createElement("p");
  told.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  let limit = SHOWN_ROWS;

  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    let shown = 0;
    rows.forEach((row, index) => {
      const matches = words.every((word) => texts[index].includes(word));
      found += matches;
      row.hidden = !matches || shown >= limit;
      shown += !row.hidden;
    });
    told.textContent = `${shown} of ${found} rows. `;
    button.textContent = limit === SHOWN_ROWS ? "Show all" : `Show ${SHOWN_ROWS}`;
    button.hidden = found <= SHOWN_ROWS;
    told.append(button);
  }

  box.addEventListener("input", show);
  button.addEventListener("click", () => {
    limit = limit === SHOWN_ROWS ? Infinity : SHOWN_ROWS;
    show();
  });
  const frame = table.closest(".table-wrapper") || table;
  const controls = document.createElement("div");
  controls.className = "table-filter";
  controls.append(box, told);
  frame.before(controls);
  show();
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".content table").forEach((table) => {
    if (table.tBodies.length && table.tBodies[0].rows.length > LONG_ROWS) filterTable(table);
  });
});
