"use strict";

// Tables: a click on a heading sorts by its column, a second one the other way round.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.classList.add("sorts");
    heading.tabIndex = 0;
    heading.title = "sort by this column";
    heading.addEventListener("click", () => sortBy(body, headings, column));
    heading.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortBy(body, headings, column);
    });
  });
}

function sortBy(body, headings, column) {
  const ascending = headings[column].getAttribute("aria-sort") !== "ascending";
  for (const heading of headings) heading.removeAttribute("aria-sort");
  headings[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const sign = ascending ? 1 : -1;
  const keyed = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);  // nothing goes last
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  });
  body.append(...keyed.map(([, row]) => row));
}

function keyOf(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  if (!text || text === "-") return null;
  const plain = /^[+-]?[0-9][0-9,]*([.][0-9]+)?( %)?$/.test(text);
  return plain ? parseFloat(text.replaceAll(",", "")) : text;
}

// Charts: each replaces its picture, which stays for paper and for browsers without scripts.
const dark = matchMedia("(prefers-color-scheme: dark)");

function colours(layout) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const rule = style.getPropertyValue("--rule").trim();
  const paper = style.getPropertyValue("--paper").trim();
  const changes = {
    "font.color": ink,
    "modebar.bgcolor": "rgba(0,0,0,0)",
    "modebar.color": rule,
    "modebar.activecolor": ink,
    "hoverlabel.bgcolor": paper,
    "hoverlabel.bordercolor": rule,
    "hoverlabel.font.color": ink,
  };
  for (const key of Object.keys(layout)) {
    if (!/^[xy]axis[0-9]*$/.test(key)) continue;
    for (const line of ["gridcolor", "linecolor", "zerolinecolor"]) changes[`${key}.${line}`] = rule;
  }
  return changes;
}

if (window.Plotly) {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector(".canvas");
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.style.height = `${layout.height}px`;
    canvas.append(plot);
    figure.classList.add("live");
    const config = {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      toImageButtonOptions: { filename: figure.id, scale: 2 },
    };
    Plotly.newPlot(plot, data, layout, config)
      .then(() => Plotly.relayout(plot, colours(layout)));
    dark.addEventListener("change", () => Plotly.relayout(plot, colours(layout)));
  }
}
