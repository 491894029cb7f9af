"use strict";

// The explorer of a study: parallel coordinates with brushes, a scatter, a table and a card.
//
// It draws on canvases by itself. Plotly's parallel coordinates took 10 to 24 s for a brush over
// 20,000 points of eight columns where WebGL is emulated, and its WebGL scatter 0.4 to 0.7 s. Lines
// between two neighbouring axes that fall on the same pixels are drawn once here, which takes
// a few hundredths of a second; tests/acceptance/test_explorer_browser.py measures it.

const carsimExplorer = (() => {
  const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
                  float32: Float32Array, float64: Float64Array };
  const BINS = 110;        // heights that are told apart on an axis
  const TOP = 48, BOTTOM = 22, SIDE = 56;  // room around the axes, in pixels
  const NARROW = 80;       // between two axes, in pixels: their titles stand in three lines, not in two
  const LINE = 14;         // height of a line of titles
  const MOST_ROWS = 40;    // rows of the table
  const NEAR = 14;         // pixels between a click and the point that it means
  const COLOURS = { front: "#d55e00", inside: "rgba(86, 140, 190, 0.9)", lines: "rgba(86, 140, 190, 0.35)" };
  // Beside the colours of policies, of which some are blue.
  const PLAIN = { inside: "rgba(140, 140, 140, 0.75)", lines: "rgba(140, 140, 140, 0.3)" };

  function unpack({ dtype, base64 }) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new TYPES[dtype](bytes.buffer);
  }

  function made(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  const number = (value) => Number.isFinite(value)
    ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : "-";

  // A column: where each point stands on its axis, 0 to 1, and its text.
  function columnOf(given, points) {
    const codes = given.codes ? unpack(given.codes) : null;
    const raw = given.values ? unpack(given.values) : null;
    const isCategory = given.scale === "category";
    const valueOf = (i) => isCategory ? codes[i] : codes ? given.ticks[codes[i]] : raw[i];
    const scaled = given.scale === "log" ? Math.log10 : (value) => value;
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < points; i++) {
      const value = scaled(valueOf(i));
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const span = high - low;
    const place = (value) => span ? (scaled(value) - low) / span : 0.5;
    const at = new Float32Array(points), bin = new Uint8Array(points);
    for (let i = 0; i < points; i++) {
      at[i] = place(valueOf(i));
      bin[i] = Number.isNaN(at[i]) ? 255 : Math.round(at[i] * (BINS - 1));
    }
    const back = (share) => {
      const value = low + share * span;
      return given.scale === "log" ? 10 ** value : value;
    };
    const text = (i) => isCategory ? given.labels[codes[i]] : number(valueOf(i));
    return { ...given, codes, valueOf, place, at, bin, back, text, isCategory };
  }

  function ticksOf(column, most) {
    if (column.isCategory) {
      const every = Math.ceil(column.labels.length / most);
      return column.labels.map((label, code) => [column.place(code), label])
        .filter((_, code) => code % every === 0);
    }
    if (column.ticks && column.ticks.length <= most) {
      return column.ticks.map((value) => [column.place(value), number(value)]);
    }
    const ends = [column.back(0), column.back(1)];
    const found = [];
    if (column.scale === "log") {
      for (let power = Math.floor(Math.log10(ends[0])); power <= Math.log10(ends[1]); power++) {
        for (const digit of [1, 2, 5]) found.push(digit * 10 ** power);
      }
    } else {
      const rough = (ends[1] - ends[0]) / (most - 1) || 1;
      const unit = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((digit) => digit * unit).find((each) => each >= rough);
      for (let value = Math.ceil(ends[0] / step) * step; value <= ends[1]; value += step) found.push(value);
    }
    const within = found.filter((value) => value >= ends[0] * (1 - 1e-9) && value <= ends[1] * (1 + 1e-9));
    return (within.length ? within : ends).map((value) => [column.place(value), number(value)]);
  }

  class Explorer {
    constructor(root, data, { open = null, kept = null } = {}) {
      this.root = root;
      this.data = data;
      this.open = open;
      this.points = data.points;
      this.numbers = unpack(data.numbers);
      this.rank = unpack(data.rank);
      this.family = unpack(data.family);
      this.columns = data.columns.map((given) => columnOf(given, data.points));
      this.times = data.times.map(({ title, values }) => ({ title, values: unpack(values) }));
      this.limit = data.limit && { labels: data.limit.labels, codes: unpack(data.limit.codes) };
      this.policy = data.policy && { ...data.policy, codes: unpack(data.policy.codes) };
      this.front = [...this.rank.keys()].filter((i) => this.rank[i] > 0);
      this.knee = this.rank.indexOf(2);
      this.inside = new Uint8Array(this.points).fill(1);
      const objectives = this.columns.filter(({ kind }) => kind === "objective");
      const first = objectives[0];
      const second = objectives[1] ?? this.columns[0];
      this.view = { x: first.name, y: second.name, fit: "all", sort: first.name, brushes: {}, chosen: null };
      if (kept) this.view = { ...this.view, ...kept };
      for (const axis of ["x", "y", "sort"]) if (!this.column(this.view[axis])) this.view[axis] = first.name;
      this.build();
      this.choose();
    }

    column(name) { return this.columns.find((column) => column.name === name); }

    // ------------------------------------------------------------------ elements

    build() {
      const root = this.root;
      root.replaceChildren();
      root.classList.add("explorer-parts");
      this.status = made("p", { className: "explorer-status", role: "status" });
      this.status.setAttribute("role", "status");
      this.lines = this.canvas("parallel coordinates of all axes and objectives", 330);
      this.scatter = this.canvas("scatter of two columns", 380);
      this.scatter.tabIndex = 0;
      const menus = made("div", { className: "explorer-menus" },
        this.menu("across", "x"), this.menu("up", "y"), this.fitMenu());
      const clear = made("button", { type: "button", textContent: "Show all points again" });
      clear.addEventListener("click", () => { this.view.brushes = {}; this.choose(); this.fillLimits(); });
      this.limits = made("div", { className: "explorer-limits" });
      const folded = made("details", { className: "explorer-fold" },
        made("summary", { textContent: "Limits in numbers, for the keyboard" }), this.limits);
      this.card = made("section", { className: "explorer-card" });
      this.card.setAttribute("aria-label", "the chosen point");
      this.card.setAttribute("aria-live", "polite");
      this.table = made("div", { className: "scroll", tabIndex: 0 });
      this.table.setAttribute("role", "region");
      this.table.setAttribute("aria-label", "points within the limits");
      const hint = made("p", { className: "explorer-hint", textContent:
        "Drag along an axis to limit it; click on the axis to free it. A click on a point, or on its "
        + `number in the table, opens its card. ${this.policy ? "Filled marks and thick lines" : "Orange"}: `
        + "the front; the large diamond is its knee; a box joins "
        + `points that differ by less than ${(100 * this.data.same).toFixed(1)} % in all objectives.` });
      root.append(this.status, ...this.legend(), this.lines, folded, clear, menus,
        made("div", { className: "explorer-pair" }, made("div", {}, this.scatter), this.card), hint, this.table);
      this.fillLimits();
      this.listen();
    }

    // The policies of the front, in the looks that they have in all figures.
    legend() {
      if (!this.policy) return [];
      const shown = new Set(this.front.map((i) => this.policy.codes[i]));
      const list = made("ul", { className: "explorer-legend" });
      list.setAttribute("aria-label", "policies of the front");
      for (const code of shown) {
        const mark = made("canvas", { width: 16, height: 16 });
        mark.setAttribute("aria-hidden", "true");
        const pen = mark.getContext("2d");
        pen.fillStyle = this.policy.colours[code];
        this.fillMark(pen, this.policy.markers[code], 8, 8, 5);
        list.append(made("li", {}, mark, this.policy.labels[code]));
      }
      return [list];
    }

    fillMark(pen, marker, x, y, size) {
      pen.beginPath();
      if (marker === "s") pen.rect(x - size, y - size, 2 * size, 2 * size);
      else if (marker === "^" || marker === "d" || marker === "*") {
        const corners = { "^": [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], d: [[0, -1.3], [1, 0], [0, 1.3], [-1, 0]],
          "*": [[0, -1.4], [0.4, -0.4], [1.4, 0], [0.4, 0.4], [0, 1.4], [-0.4, 0.4], [-1.4, 0], [-0.4, -0.4]] }[marker];
        corners.forEach(([right, down], k) => pen[k ? "lineTo" : "moveTo"](x + size * right, y + size * down));
        pen.closePath();
      } else pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
    }

    canvas(label, height) {
      const canvas = made("canvas", { className: "explorer-canvas" });
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", label);
      canvas.style.height = `${height}px`;
      return canvas;
    }

    menu(label, key) {
      const select = made("select");
      for (const column of this.columns) select.append(made("option", { value: column.name, textContent: column.title }));
      select.value = this.view[key];
      select.dataset.axis = key;
      select.addEventListener("change", () => { this.view[key] = select.value; this.drawScatter(); });
      return made("label", {}, `${label} `, select);
    }

    fitMenu() {
      const select = made("select");
      for (const [value, text] of [["all", "all points"], ["front", "the front"], ["inside", "points within the limits"]]) {
        select.append(made("option", { value, textContent: text }));
      }
      select.value = this.view.fit;
      select.addEventListener("change", () => { this.view.fit = select.value; this.drawScatter(); });
      return made("label", {}, "fitted to ", select);
    }

    fillLimits() {
      this.limits.replaceChildren(...this.columns.map((column) => {
        const ends = ["from", "to"].map((word, end) => {
          const control = column.codes && column.codes.length
            ? made("select") : made("input", { type: "number", step: "any" });
          control.setAttribute("aria-label", `${column.title} ${word}`);
          if (control.tagName === "SELECT") {
            control.append(made("option", { value: "", textContent: "any" }));
            column.labels.forEach((label, code) => control.append(made("option", { value: String(code), textContent: label })));
          }
          const brush = this.view.brushes[column.name];
          if (brush) control.value = this.endText(column, brush, end);
          control.addEventListener("change", () => this.limitBy(column));
          return control;
        });
        column.controls = ends;
        return made("div", { className: "explorer-limit" }, made("span", { textContent: column.title }), ...ends);
      }));
    }

    endText(column, brush, end) {
      if (!column.codes) return String(Number(column.back(brush[end]).toPrecision(5)));
      const places = column.labels.map((_, code) => column.place(column.isCategory ? code : column.ticks[code]));
      const within = places.map((place, code) => [place, code]).filter(([place]) => place >= brush[0] - 1e-6 && place <= brush[1] + 1e-6);
      return within.length ? String(within[end ? within.length - 1 : 0][1]) : "";
    }

    limitBy(column) {
      const [from, to] = column.controls.map((control) => {
        if (control.value === "") return null;
        const value = Number(control.value);
        return column.place(column.codes && !column.isCategory ? column.ticks[value] : value);
      });
      if (from === null && to === null) delete this.view.brushes[column.name];
      else this.view.brushes[column.name] = [from ?? Math.min(0, to), to ?? Math.max(1, from)];
      this.choose();
    }

    listen() {
      let drag = null;
      const share = (event) => {
        const { top, height } = this.lines.getBoundingClientRect();
        return Math.min(1, Math.max(0, 1 - (event.clientY - top - TOP) / (height - TOP - BOTTOM)));
      };
      this.lines.addEventListener("pointerdown", (event) => {
        const { left } = this.lines.getBoundingClientRect();
        const places = this.columns.map((_, k) => Math.abs(this.across(k) - (event.clientX - left)));
        const nearest = places.indexOf(Math.min(...places));
        if (places[nearest] > 24) return;
        drag = { column: this.columns[nearest], from: share(event) };
        this.lines.setPointerCapture(event.pointerId);
      });
      this.lines.addEventListener("pointermove", (event) => {
        if (!drag) return;
        const ends = [drag.from, share(event)].sort((a, b) => a - b);
        if (ends[1] - ends[0] > 0.01) this.view.brushes[drag.column.name] = ends;
        if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.choose(); });
      });
      this.lines.addEventListener("pointerup", (event) => {
        if (!drag) return;
        if (Math.abs(share(event) - drag.from) <= 0.01) delete this.view.brushes[drag.column.name];
        drag = null;
        this.choose();
        this.fillLimits();
      });
      this.scatter.addEventListener("click", (event) => this.pick(this.nearest(event)));
      this.scatter.addEventListener("mousemove", (event) => {
        const point = this.nearest(event);
        this.scatter.title = point < 0 ? "" : this.columns.map((c) => `${c.title} ${c.text(point)}`).join(", ");
      });
      this.scatter.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step || !this.front.length) return;
        event.preventDefault();
        const x = this.column(this.view.x);
        const along = [...this.front].sort((a, b) => x.at[a] - x.at[b]);
        const place = along.indexOf(this.chosen);
        this.pick(along[Math.min(along.length - 1, Math.max(0, place < 0 ? along.indexOf(this.knee) : place + step))]);
      });
      this.observer?.disconnect();
      let width = 0;
      this.observer = new ResizeObserver(() => {
        if (this.root.clientWidth === width) return;
        width = this.root.clientWidth;
        this.drawLines();
        this.drawScatter();
      });
      this.observer.observe(this.root);
    }

    // ------------------------------------------------------------------ what is chosen

    choose() {
      const { inside, points } = this;
      inside.fill(1);
      for (const [name, [low, high]] of Object.entries(this.view.brushes)) {
        const at = this.column(name)?.at;
        if (!at) continue;
        for (let i = 0; i < points; i++) if (!(at[i] >= low - 1e-6 && at[i] <= high + 1e-6)) inside[i] = 0;
      }
      this.count = inside.reduce((sum, each) => sum + each, 0);
      const front = this.front.filter((i) => inside[i]);
      const families = new Set(front.map((i) => this.family[i])).size;
      const word = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;
      const known = families === 1 ? "1 family" : `${families.toLocaleString("en")} families`;
      this.status.textContent = `${this.count.toLocaleString("en")} of ${word(points, "point")} within the limits; `
        + `${front.length.toLocaleString("en")} of them on the front${this.data.so_far ? " so far" : ""}, in ${known}.`;
      this.drawLines();
      this.drawScatter();
      this.fillTable();
      this.chosen = this.view.chosen === null ? -1 : this.numbers.indexOf(this.view.chosen);
      this.fillCard();
    }

    pick(point) {
      if (point < 0) return;
      this.chosen = point;
      this.view.chosen = this.numbers[point];
      this.drawLines();
      this.drawScatter();
      this.fillCard();
    }

    nearest(event) {
      const { left, top } = this.scatter.getBoundingClientRect();
      const x = event.clientX - left, y = event.clientY - top;
      let found = -1, least = NEAR * NEAR;
      for (let i = 0; i < this.points; i++) {
        const weight = this.rank[i] ? 0.6 : 1;  // what lies on the front is meant first
        const distance = weight * ((this.px[i] - x) ** 2 + (this.py[i] - y) ** 2);
        if (this.inside[i] && distance < least) { least = distance; found = i; }
      }
      return found;
    }

    // ------------------------------------------------------------------ drawing

    prepared(canvas) {
      const scale = window.devicePixelRatio || 1;
      const { clientWidth: width, clientHeight: height } = canvas;
      if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
      if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
      const pen = canvas.getContext("2d");
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = "12px system-ui, sans-serif";
      const style = getComputedStyle(this.root);
      const soft = getComputedStyle(this.status).color;
      return { pen, width, height, ink: style.color, soft };
    }

    across(k) {
      const width = this.lines.clientWidth;
      return SIDE + k * (width - 2 * SIDE) / Math.max(1, this.columns.length - 1);
    }

    drawLines() {
      const { pen, height, ink, soft } = this.prepared(this.lines);
      const depth = height - TOP - BOTTOM;
      const down = (bin) => TOP + depth * (1 - bin / (BINS - 1));
      const seen = new Uint8Array(BINS * BINS);
      const layer = (wanted, colour, width) => {
        pen.strokeStyle = colour;
        pen.lineWidth = width;
        for (let k = 0; k + 1 < this.columns.length; k++) {
          const from = this.columns[k].bin, to = this.columns[k + 1].bin;
          const left = this.across(k), right = this.across(k + 1);
          seen.fill(0);
          pen.beginPath();
          for (let i = 0; i < this.points; i++) {
            if (!wanted[i] || from[i] === 255 || to[i] === 255) continue;
            const cell = from[i] * BINS + to[i];
            if (seen[cell]) continue;
            seen[cell] = 1;
            pen.moveTo(left, down(from[i]));
            pen.lineTo(right, down(to[i]));
          }
          pen.stroke();
        }
      };
      layer(this.inside, (this.policy ? PLAIN : COLOURS).lines, 1);
      for (const [colour, points] of this.frontByColour()) {
        const wanted = new Uint8Array(this.points);
        for (const i of points) wanted[i] = this.inside[i];
        layer(wanted, colour, this.policy ? 1.6 : 1.3);
      }
      if (this.chosen >= 0) {
        const one = new Uint8Array(this.points);
        one[this.chosen] = 1;
        layer(one, ink, 2.5);
      }
      this.columns.forEach((column, k) => {
        const x = this.across(k);
        pen.strokeStyle = soft;
        pen.lineWidth = 1;
        pen.beginPath();
        pen.moveTo(x, TOP);
        pen.lineTo(x, TOP + depth);
        pen.stroke();
        pen.fillStyle = ink;
        pen.textAlign = "center";
        const between = this.across(1) - this.across(0);
        const levels = between < NARROW ? 3 : 2;
        const most = levels * Math.min(between, this.lines.clientWidth) - 8;
        const half = Math.min(most, pen.measureText(column.title).width) / 2;
        const middle = Math.min(Math.max(x, half + 2), this.lines.clientWidth - half - 2);
        pen.fillText(column.title, middle, TOP - 8 - LINE * (k % levels), most);
        pen.fillStyle = soft;
        pen.textAlign = "left";
        const room = (k + 1 < this.columns.length ? between : SIDE) - 7;
        for (const [share, label] of ticksOf(column, 6)) {
          pen.fillText(label, x + 5, TOP + depth * (1 - share) + 4, room);
        }
        const brush = this.view.brushes[column.name];
        if (!brush) return;
        pen.fillStyle = "rgba(213, 94, 0, 0.25)";
        pen.strokeStyle = COLOURS.front;
        const [low, high] = brush.map((share) => Math.min(1, Math.max(0, share)));
        const box = [x - 7, TOP + depth * (1 - high), 14, Math.max(3, depth * (high - low))];
        pen.fillRect(...box);
        pen.strokeRect(...box);
      });
    }

    frontByColour() {
      const groups = new Map();
      for (const i of this.front) {
        const colour = this.policy ? this.policy.colours[this.policy.codes[i]] : COLOURS.front;
        if (!groups.has(colour)) groups.set(colour, []);
        groups.get(colour).push(i);
      }
      return groups;
    }

    drawScatter() {
      const { pen, width, height, ink, soft } = this.prepared(this.scatter);
      const x = this.column(this.view.x), y = this.column(this.view.y);
      const fitted = { all: () => true, front: (i) => this.rank[i] > 0, inside: (i) => this.inside[i] }[this.view.fit];
      const ends = [x, y].map(({ at }) => {
        let low = Infinity, high = -Infinity;
        for (let i = 0; i < this.points; i++) {
          if (!fitted(i) || Number.isNaN(at[i])) continue;
          if (at[i] < low) low = at[i];
          if (at[i] > high) high = at[i];
        }
        if (low > high) return [0, 1];
        const room = 0.04 * (high - low) || 0.05;
        return [low - room, high + room];
      });
      const box = { left: 64, right: width - 14, top: 12, bottom: height - 40 };
      const right = (share) => box.left + (box.right - box.left) * (share - ends[0][0]) / (ends[0][1] - ends[0][0]);
      const up = (share) => box.bottom - (box.bottom - box.top) * (share - ends[1][0]) / (ends[1][1] - ends[1][0]);
      pen.strokeStyle = soft;
      pen.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
      pen.fillStyle = soft;
      pen.textAlign = "center";
      for (const [share, label] of ticksOf(x, 7)) {
        if (share >= ends[0][0] && share <= ends[0][1]) pen.fillText(label, right(share), box.bottom + 15);
      }
      pen.textAlign = "right";
      for (const [share, label] of ticksOf(y, 7)) {
        if (share >= ends[1][0] && share <= ends[1][1]) pen.fillText(label, box.left - 5, up(share) + 4, 58);
      }
      pen.fillStyle = ink;
      pen.textAlign = "center";
      pen.fillText(x.title + this.way(x), (box.left + box.right) / 2, height - 6);
      pen.save();
      pen.translate(11, (box.top + box.bottom) / 2);
      pen.rotate(-Math.PI / 2);
      pen.fillText(y.title + this.way(y), 0, 0);
      pen.restore();
      pen.save();
      pen.beginPath();
      pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
      pen.clip();
      this.px = new Float32Array(this.points);
      this.py = new Float32Array(this.points);
      for (let i = 0; i < this.points; i++) {
        this.px[i] = right(x.at[i]);
        this.py[i] = up(y.at[i]);
      }
      for (const [wanted, colour] of [[0, "rgba(140, 140, 140, 0.25)"], [1, (this.policy ? PLAIN : COLOURS).inside]]) {
        pen.fillStyle = colour;
        for (let i = 0; i < this.points; i++) {
          if (this.inside[i] === wanted) pen.fillRect(this.px[i] - 1.5, this.py[i] - 1.5, 3, 3);
        }
      }
      this.drawFamilies(pen);
      for (const i of this.front) {
        if (!this.inside[i]) continue;
        const code = this.policy ? this.policy.codes[i] : -1;
        pen.fillStyle = this.policy ? this.policy.colours[code] : COLOURS.front;
        this.fillMark(pen, this.policy ? this.policy.markers[code] : "o", this.px[i], this.py[i], 3.5);
      }
      if (this.knee >= 0) this.mark(pen, this.knee, COLOURS.front, 8, true);
      if (this.chosen >= 0) this.mark(pen, this.chosen, ink, 9, false);
      pen.restore();
    }

    way(column) { return { min: ", less is better", max: ", more is better" }[column.better] ?? ""; }

    drawFamilies(pen) {
      const boxes = new Map();
      for (const i of this.front) {
        if (!this.inside[i]) continue;
        const known = boxes.get(this.family[i]) ?? [Infinity, Infinity, -Infinity, -Infinity, 0];
        boxes.set(this.family[i], [Math.min(known[0], this.px[i]), Math.min(known[1], this.py[i]),
          Math.max(known[2], this.px[i]), Math.max(known[3], this.py[i]), known[4] + 1]);
      }
      pen.strokeStyle = COLOURS.front;
      pen.setLineDash([3, 3]);
      for (const [left, top, right, bottom, members] of boxes.values()) {
        if (members > 1) pen.strokeRect(left - 6, top - 6, right - left + 12, bottom - top + 12);
      }
      pen.setLineDash([]);
    }

    mark(pen, point, colour, size, isDiamond) {
      const x = this.px[point], y = this.py[point];
      pen.strokeStyle = colour;
      pen.lineWidth = 2;
      pen.beginPath();
      if (isDiamond) {
        pen.moveTo(x, y - size);
        pen.lineTo(x + size, y);
        pen.lineTo(x, y + size);
        pen.lineTo(x - size, y);
        pen.closePath();
      } else pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.stroke();
    }

    // ------------------------------------------------------------------ table and card

    fillTable() {
      const sort = this.column(this.view.sort);
      const sign = sort.better === "max" ? -1 : 1;
      const rows = [];
      for (let i = 0; i < this.points; i++) if (this.inside[i]) rows.push(i);
      rows.sort((a, b) => sign * (sort.at[a] - sort.at[b]) || this.rank[b] - this.rank[a] || a - b);
      const head = made("tr", {}, made("th", { textContent: "point" }));
      for (const column of this.columns) {
        const cell = made("th", { textContent: column.title, className: "sorts", tabIndex: 0, title: "sort by this column" });
        if (column === sort) cell.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const sorted = () => { this.view.sort = column.name; this.fillTable(); };
        cell.addEventListener("click", sorted);
        cell.addEventListener("keydown", (event) => { if (event.key === "Enter") sorted(); });
        head.append(cell);
      }
      const body = made("tbody");
      for (const i of rows.slice(0, MOST_ROWS)) {
        const button = made("button", { type: "button", className: "explorer-open", textContent: String(this.numbers[i]) });
        button.setAttribute("aria-label", `open point ${this.numbers[i]}`);
        button.addEventListener("click", () => this.pick(i));
        const mark = this.rank[i] === 2 ? " knee" : this.rank[i] ? " front" : "";
        const row = made("tr", { className: this.rank[i] === 2 ? "strong" : "" }, made("td", {}, button, mark));
        for (const column of this.columns) row.append(made("td", { textContent: column.text(i), className: column.isCategory ? "" : "number" }));
        body.append(row);
      }
      const caption = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length.toLocaleString("en")} points within the limits` : "Points within the limits";
      this.table.replaceChildren(made("table", {}, made("caption", { textContent: caption }), made("thead", {}, head), body));
    }

    fillCard() {
      const point = this.chosen;
      if (point < 0) {
        this.card.replaceChildren(made("p", { textContent: "No point is open." }));
        return;
      }
      const list = made("dl");
      const told = (term, text) => list.append(made("dt", { textContent: term }), made("dd", { textContent: text }));
      for (const column of this.columns.filter(({ kind }) => kind === "objective")) {
        const knee = this.knee < 0 ? NaN : column.valueOf(this.knee);
        const change = 100 * (column.valueOf(point) / knee - 1);
        const aside = Number.isFinite(change) && point !== this.knee ? ` (${change < 0 ? "" : "+"}${change.toFixed(1)} % from the knee)` : "";
        told(column.title, column.text(point) + aside);
      }
      const axes = this.columns.filter(({ kind }) => kind === "axis");
      const differs = axes.filter((column) => this.knee >= 0 && column.at[point] !== column.at[this.knee]);
      for (const column of differs) told(column.title, `${column.text(point)} (knee: ${column.text(this.knee)})`);
      const alike = axes.filter((column) => !differs.includes(column)).map((column) => `${column.title} ${column.text(point)}`);
      if (alike.length) told(this.knee >= 0 && point !== this.knee ? "as at the knee" : "axes", alike.join(", "));
      if (this.policy) told("policy", this.policy.labels[this.policy.codes[point]]);
      if (this.limit) told("limited by", this.limit.labels[this.limit.codes[point]]);
      const whole = this.times.reduce((sum, { values }) => sum + (values[point] || 0), 0);
      const bars = made("dl", { className: "explorer-times" });
      for (const { title, values } of this.times) {
        const bar = made("i");
        bar.style.width = `${(100 * values[point] / whole).toFixed(1)}%`;
        bars.append(made("dt", { textContent: title }), made("dd", {}, bar, made("span", { textContent: `${number(values[point])} s` })));
      }
      const rank = this.rank[point] === 2 ? ", the knee of the front" : this.rank[point] ? ", on the front" : "";
      const members = this.family[point] ? this.front.filter((i) => this.family[i] === this.family[point]) : [];
      this.card.replaceChildren(made("h3", { textContent: `Point ${this.numbers[point]}${rank}` }));
      if (members.length > 1) {
        const others = members.filter((i) => i !== point).map((i) => this.numbers[i]);
        const some = others.length > 8 ? `${others.slice(0, 8).join(", ")} and ${others.length - 8} more` : others.join(", ");
        this.card.append(made("p", { textContent: `Equal within ${(100 * this.data.same).toFixed(1)} % in all objectives: ${some}.` }));
      }
      this.card.append(list);
      if (whole) this.card.append(made("h4", { textContent: "Time of a batch by block" }), bars);
      const command = this.command(point);
      if (command) this.card.append(made("pre", { textContent: command, tabIndex: 0 }));
      if (this.open) {
        const button = made("button", { type: "button", textContent: "Open this design", className: "primary" });
        button.addEventListener("click", () => this.open(Number(this.numbers[point])));
        this.card.append(button);
      }
    }

    command(point) {
      const known = this.data.command;
      if (!known) return "";
      const fields = new Map(known.set);
      for (const column of this.columns.filter(({ kind }) => kind === "axis")) {
        const sets = column.codes ? column.sets?.[column.codes[point]] : [[column.name, String(column.valueOf(point))]];
        if (!sets) return "";
        for (const [path, value] of sets) fields.set(path, value);
      }
      const quoted = (text) => /^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
      const taken = (path, otherwise) => { const value = fields.get(path) ?? otherwise; fields.delete(path); return value; };
      const words = [`carsim run ${quoted(taken("design", known.design))}`];
      const trace = taken("trace", null), work = taken("workload", known.workload);
      for (const [path, value] of fields) words.push(`--set ${quoted(`${path}=${value}`)}`);
      for (const each of trace ? [trace] : known.traces) words.push(`--trace ${quoted(each)}`);
      if (work) words.push(`--workload ${quoted(work)}`);
      return words.join(" \\\n  ");
    }
  }

  // What a user has chosen stays when a sweep adds points.
  function mount(root, data, options = {}) {
    const kept = root.explorer?.view ?? null;
    root.explorer?.observer?.disconnect();
    root.explorer = new Explorer(root, data, { ...options, kept });
    return root.explorer;
  }

  return { mount };
})();

window.carsimExplorer = carsimExplorer;

for (const figure of document.querySelectorAll("figure.explorer")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  figure.classList.add("live");
  carsimExplorer.mount(figure.querySelector(".canvas"), data);
}
