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
const headings = [...document.querySelectorAll("body > h2")];
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

// Charts: each replaces its picture, which stays for paper and for browsers without scripts.

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
  chosen.only = {};
  for (const name of choices.filters) {
    const values = [...new Set(choices.columns[name])].sort(byValue);
    const label = document.createElement("label");
    const select = document.createElement("select");
    for (const value of ["all", ...values]) select.add(new Option(decoded(String(value))));
    select.addEventListener("change", () => {
      const value = values[select.selectedIndex - 1];
      if (select.selectedIndex) chosen.only[name] = value;
      else delete chosen.only[name];
      redraw();
    });
    label.append(`${decoded(name)}: `, select);
    controls.append(label);
  }
  return chosen;
}

function decoded(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function byValue(a, b) {
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// Points that a reader has not left out.
function shownOf(choices, chosen) {
  const only = Object.entries(chosen.only);
  const all = choices.front.map((_, place) => place);
  return all.filter((place) => only.every(([name, value]) => choices.columns[name][place] === value));
}

function scatter(choices, chosen) {
  const { columns, front, knee, colours } = choices;
  const all = shownOf(choices, chosen);
  const told = [...new Set([...choices.hover, chosen.x, chosen.y])];
  // Points on the same place: the first drawn is the largest, so that a rim of each is seen.
  const together = new Map();
  for (const place of all) {
    const at = `${columns[chosen.x][place]} ${columns[chosen.y][place]}`;
    together.set(at, [...(together.get(at) ?? []), place]);
  }
  const values = chosen.colour ? columns[chosen.colour] : null;
  const size = {}, text = {};
  for (const places of together.values()) {
    if (values) places.sort((a, b) => byValue(values[a], values[b]));
    places.forEach((place, rank) => {
      size[place] = 8 + 5 * Math.min(4, places.length - 1 - rank);
      text[place] = told.map((name) => `${name}: ${columns[name][place]}`).join("<br>");
      const others = places.filter((other) => other !== place).map((other) => choices.points[other]);
      if (others.length) text[place] += `<br>on the same place: ${others.slice(0, 8).join(", ")}`;
      if (others.length > 8) text[place] += ` and ${others.length - 8} more`;
    });
  }
  const look = (places, color) => ({ size: places.map((place) => size[place]), color,
                                     opacity: 1, line: { width: 0 } });
  const trace = (places, name, more) => ({
    type: "scatter", mode: "markers", name,
    x: places.map((place) => columns[chosen.x][place]),
    y: places.map((place) => columns[chosen.y][place]),
    text: places.map((place) => text[place]),
    customdata: places.map((place) => choices.points[place]),
    hovertemplate: "%{text}<extra></extra>",
    ...more,
  });
  const data = [];
  const distinct = values ? [...new Set(values)].sort(byValue) : [];
  if (values && distinct.length > colours.length && distinct.every((v) => typeof v !== "string")) {
    const marker = { ...look(all, all.map((place) => values[place])), colorscale: "Viridis", showscale: true,
                     colorbar: { title: { text: chosen.colour }, thickness: 14 } };
    data.push(trace(all, "points", { marker, showlegend: false }));
  } else if (values) {
    distinct.forEach((value, index) => {
      const places = all.filter((place) => values[place] === value);
      const marker = look(places, colours[index % colours.length]);
      data.push(trace(places, `${chosen.colour} ${value ?? "-"}`, { marker }));
    });
  } else {
    data.push(trace(all, "points", { marker: look(all, colours[0]) }));
  }
  const joined = choices.joined && chosen.x === choices.x && chosen.y === choices.y;
  const ring = { size: 13, symbol: "circle-open", color: "#7f7f7f", line: { width: 1.6 } };
  const line = { color: "#7f7f7f", width: 1, dash: "dot" };
  const members = all.filter((place) => front[place]);
  data.push(trace(members, "front", { mode: joined ? "lines+markers" : "markers", marker: ring, line }));
  if (all.includes(knee)) {
    data.push(trace([knee], "knee", { marker: { size: 17, symbol: "star", color: "#d55e00" } }));
  }
  return data;
}

// Rows of tables of points, each with the number of its point.
function pointRows() {
  return [...document.querySelectorAll("tbody tr")]
    .filter(({ parentNode }) => parentNode.parentNode.tHead.rows[0].cells[0].textContent === "point")
    .map((row) => [row, Number(row.cells[0].dataset.value)]);
}

// The rows of a point in the tables, marked; the first one comes into view.
function pick(point) {
  document.querySelectorAll(".picked").forEach((row) => row.classList.remove("picked"));
  const rows = pointRows().filter(([, own]) => own === point).map(([row]) => row);
  rows.forEach((row) => row.classList.add("picked"));
  rows[0]?.scrollIntoView({ block: "center" });
}

// Rows of points that were left out are left out of the tables as well.
function narrow(choices, chosen) {
  const left = new Set(shownOf(choices, chosen).map((place) => choices.points[place]));
  const known = new Set(choices.points);
  for (const [row, point] of pointRows()) row.hidden = known.has(point) && !left.has(point);
}

if (window.Plotly) {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { data, layout, choices } = JSON.parse(figure.querySelector("script").textContent);
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
    if (choices) {
      const controls = document.createElement("p");
      controls.className = "controls screen";
      canvas.before(controls);
      const draw = () => {
        for (const axis of ["x", "y"]) {
          layout[`${axis}axis`].title = { text: chosen[axis] };
          layout[`${axis}axis`].type = chosen[`${axis}axis`] ?? "-";
        }
        Plotly.react(plot, scatter(choices, chosen), layout, config);
        narrow(choices, chosen);
      };
      const chosen = withChoices(choices, controls, draw);
      draw();
      plot.on("plotly_click", ({ points: [{ customdata }] }) => pick(customdata));
    } else {
      Plotly.newPlot(plot, data, layout, config);
    }
  }
}
