"use strict";

// Tables: a click on a heading sorts by its column, a second one the other way round.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || !table.tHead || body.rows.length < 2) continue;
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

// A table of contents beside the column, where there is room.
const headings = [...document.querySelectorAll("main > h2")];
if (headings.length > 3) {
  const contents = document.createElement("nav");
  contents.className = "contents screen";
  contents.setAttribute("aria-label", "contents");
  headings.forEach((heading, place) => {
    heading.id ||= `part-${place + 1}`;
    const link = document.createElement("a");
    link.href = `#${heading.id}`;
    link.textContent = heading.textContent;
    contents.append(link);
  });
  document.querySelector("h1").after(contents);
}

// What the mark says that was clicked; its text is escaped for Plotly.
function plain({ hovertext }) {
  return (hovertext ?? "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// Charts: each replaces its picture, which stays for paper and for browsers without scripts.

if (window.Plotly) {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector(".canvas");
    const plot = document.createElement("div");
    plot.className = "xaxis3" in layout ? "plot wide" : "plot";
    plot.style.height = `${layout.height}px`;
    canvas.append(plot);
    figure.classList.add("live");
    const config = {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      toImageButtonOptions: { filename: figure.id, format: "svg" },
    };
    Plotly.newPlot(plot, data, layout, config);
    const told = figure.querySelector(".told");
    if (told) plot.on("plotly_click", ({ points: [point] }) => { told.textContent = plain(point); });
  }
}
