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

// A chart with choices: readers say which columns go right, up and into colour.
function withChoices(choices, controls, redraw) {
  const names = Object.keys(choices.columns);
  const chosen = { x: choices.x, y: choices.y, colour: choices.colour };
  for (const [role, text] of [["y", "up"], ["x", "right"], ["colour", "colour"]]) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    for (const name of role === "colour" ? ["", ...names] : names) {
      select.add(new Option(name ? decoded(name) : "none", name, false, name === chosen[role]));
    }
    select.addEventListener("change", () => { chosen[role] = select.value; redraw(); });
    label.append(`${text}: `, select);
    controls.append(label);
    if (role === "colour") continue;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `logarithmic axis: ${text}`);
    box.addEventListener("change", () => {
      chosen[`${role}axis`] = box.checked ? "log" : "-";
      redraw();
    });
    label.append(" log ", box);
  }
  return chosen;
}

function decoded(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function scatter(choices, chosen) {
  const { columns, front, knee, colours } = choices;
  const all = front.map((_, place) => place);
  const told = [...new Set([...choices.hover, chosen.x, chosen.y])];
  const text = all.map((place) => told.map((name) => `${name}: ${columns[name][place]}`).join("<br>"));
  const trace = (places, name, more) => ({
    type: "scatter", mode: "markers", name,
    x: places.map((place) => columns[chosen.x][place]),
    y: places.map((place) => columns[chosen.y][place]),
    text: places.map((place) => text[place]),
    customdata: places.map((place) => choices.points[place]),
    hovertemplate: "%{text}<extra></extra>",
    opacity: 0.8,  // points on the same place look darker
    ...more,
  });
  const data = [];
  const values = chosen.colour ? columns[chosen.colour] : null;
  const distinct = values ? [...new Set(values)] : [];
  distinct.sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true }));
  if (values && distinct.length > colours.length && distinct.every((v) => typeof v !== "string")) {
    const marker = { size: 8, color: values, colorscale: "Viridis", showscale: true,
                     colorbar: { title: { text: chosen.colour }, thickness: 14 } };
    data.push(trace(all, "points", { marker, showlegend: false }));
  } else if (values) {
    distinct.forEach((value, index) => {
      const marker = { size: 8, color: colours[index % colours.length] };
      const places = all.filter((place) => values[place] === value);
      data.push(trace(places, `${chosen.colour} ${value ?? "-"}`, { marker }));
    });
  } else {
    data.push(trace(all, "points", { marker: { size: 8, color: colours[0] } }));
  }
  const joined = choices.joined && chosen.x === choices.x && chosen.y === choices.y;
  const ring = { size: 13, symbol: "circle-open", color: "#7f7f7f", line: { width: 1.6 } };
  const line = { color: "#7f7f7f", width: 1, dash: "dot" };
  const members = all.filter((place) => front[place]);
  data.push(trace(members, "front", { mode: joined ? "lines+markers" : "markers", marker: ring, line }));
  if (knee !== null) {
    data.push(trace([knee], "knee", { marker: { size: 17, symbol: "star", color: "#d55e00" } }));
  }
  return data;
}

// The rows of a point in the tables, marked; the first one comes into view.
function pick(point) {
  document.querySelectorAll(".picked").forEach((row) => row.classList.remove("picked"));
  const rows = [...document.querySelectorAll("tbody tr")].filter(({ cells: [first], parentNode }) =>
    parentNode.parentNode.tHead.rows[0].cells[0].textContent === "point"
    && Number(first.dataset.value) === point);
  rows.forEach((row) => row.classList.add("picked"));
  rows[0]?.scrollIntoView({ block: "center" });
}

if (window.Plotly) {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { data, layout, choices } = JSON.parse(figure.querySelector("script").textContent);
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
    const paint = () => Plotly.relayout(plot, colours(layout));
    if (choices) {
      const controls = document.createElement("p");
      controls.className = "controls screen";
      canvas.before(controls);
      const chosen = withChoices(choices, controls, () => draw());
      const draw = () => {
        for (const axis of ["x", "y"]) {
          layout[`${axis}axis`].title = { text: chosen[axis] };
          layout[`${axis}axis`].type = chosen[`${axis}axis`] ?? "-";
        }
        Plotly.react(plot, scatter(choices, chosen), layout, config).then(paint);
      };
      draw();
      plot.on("plotly_click", ({ points: [{ customdata }] }) => pick(customdata));
    } else {
      Plotly.newPlot(plot, data, layout, config).then(paint);
    }
    dark.addEventListener("change", paint);
  }
}
