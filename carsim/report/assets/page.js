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

const PANEL_PX = 150;  // width below which panels beside each other are put below each other
const BETWEEN_PX = 60;  // height of the numbers and the label of an axis between two panels

// Panels of a chart whose panels share the vertical axis; 1 for any other chart.
function panelsBeside(layout) {
  if (Object.keys(layout).some((name) => /^yaxis[0-9]/.test(name))) return 1;
  return Object.keys(layout).filter((name) => /^xaxis[0-9]*$/.test(name)).length;
}

// The same chart with its panels below each other; each repeats the vertical axis.
function stacked({ data, layout }) {
  const panels = panelsBeside(layout);
  const { t, b } = layout.margin;
  const panelPx = layout.height - t - b;
  const innerPx = panels * panelPx + (panels - 1) * BETWEEN_PX;
  const below = { ...layout, height: innerPx + t + b };
  below.legend = { ...layout.legend, y: layout.legend.y * panelPx / innerPx };
  for (let panel = 0; panel < panels; panel += 1) {
    const number = panel ? panel + 1 : "";
    const topPx = innerPx - panel * (panelPx + BETWEEN_PX);
    const domain = [Math.max(0, topPx - panelPx) / innerPx, topPx / innerPx];
    below[`xaxis${number}`] = { ...layout[`xaxis${number}`], domain: [0, 1], anchor: `y${number}` };
    below[`yaxis${number}`] = { ...layout.yaxis, domain, anchor: `x${number}` };
  }
  below.shapes = layout.shapes.map((shape) => ({ ...shape, yref: `y${shape.xref.slice(1)} domain` }));
  const moved = data.map((trace) => ({ ...trace, yaxis: `y${trace.xaxis.slice(1)}` }));
  return { data: moved, layout: below };
}

if (window.Plotly) {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const beside = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector(".canvas");
    const plot = document.createElement("div");
    plot.className = "plot";
    canvas.append(plot);
    figure.classList.add("live");
    const config = {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      toImageButtonOptions: { filename: figure.id, format: "svg" },
    };
    const panels = panelsBeside(beside.layout);
    const isNarrow = () => panels > 1 && canvas.clientWidth < panels * PANEL_PX;
    const draw = (narrow) => {
      const { data, layout } = narrow ? stacked(beside) : beside;
      plot.style.height = `${layout.height}px`;
      Plotly.react(plot, structuredClone(data), structuredClone(layout), config);
    };
    let narrow = isNarrow();
    draw(narrow);
    if (panels > 1) {
      addEventListener("resize", () => {
        if (narrow !== isNarrow()) draw(narrow = !narrow);
      });
    }
    const told = figure.querySelector(".told");
    if (told) plot.on("plotly_click", ({ points: [point] }) => { told.textContent = plain(point); });
  }
}
