// Charts of what a session uses: drawn by uPlot, asked for again as new readings come. A gap is what nobody knows.
"use strict";
(() => {
  const LEAST_MS = 4000; // between two looks
  const HEIGHT = 138;
  const UNITS = 68, LABEL = 64; // pixels: the axis at the left; a time below, so that none is cut off at the right
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
  const STEPS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]; // of an axis without a full line, in its unit
  const DAY_S = 86400;

  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const scaleOf = (top) => Math.max(0, Math.min(SIZES.length - 1, Math.floor(Math.log(Math.max(1, top)) / Math.log(1024))));
  const sized = (value, place) => `${(value / 1024 ** place).toFixed(value / 1024 ** place < 10 ? 1 : 0).replace(/\.0$/, "")}\u00a0${SIZES[place]}`;
  const words = {
    percent: (value) => `${value.toFixed(0)}\u00a0%`,
    cpus: (value) => value.toFixed(value < 10 ? 1 : 0).replace(/\.0$/, ""),
    bytes: (value) => sized(value, scaleOf(value)),
    bytes_per_s: (value) => `${sized(value, scaleOf(value))}/s`,
  };

  // From zero to what was given, or higher where more was used. Marks at none, half and all of it; where nothing was given, at round figures.
  const topOf = (panel) => {
    const known = panel.lines.flatMap((line) => line.values).filter((value) => value !== null);
    return Math.max(panel.full || 0, ...known, panel.full ? 0 : 1024) * 1.04 || 1;
  };
  const marks = (panel, top) => {
    if (panel.full) return [0, panel.full / 2, panel.full];
    const inBytes = panel.unit.startsWith("bytes"), unit = inBytes ? 1024 ** scaleOf(top) : 1;
    const step = (STEPS.find((one) => top / unit / one <= 3.2) || top / unit / 3) * unit;
    const found = [];
    for (let at = 0; at <= top; at += step) found.push(at);
    return found;
  };

  // By the reader's own clock, as finely as the stretch is short.
  const clock = (range) => {
    const length = range[1] - range[0];
    const parts = length > 2 * DAY_S ? { weekday: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hour12: false };
    const told = new Intl.DateTimeFormat(document.documentElement.lang, length < 600 ? { ...parts, second: "2-digit" } : parts);
    return (seconds) => told.format(new Date(seconds * 1000));
  };
  const latest = (values) => values.slice(-3).reverse().find((value) => value !== null);

  // A value between two gaps has no line to be part of: it is a dot.
  const lonely = (values) => values.flatMap((value, at) => value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null ? [at] : []);

  const levelLine = (chart, level, colour, dash) => {
    const { ctx, bbox } = chart, y = Math.round(chart.valToPos(level, "y", true)) + 0.5;
    ctx.save();
    ctx.strokeStyle = token(colour);
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  };

  class Drawn {
    constructor(place, panel, range, said) {
      this.panel = panel;
      this.range = range;
      this.figure = document.createElement("figure");
      this.figure.className = "chart";
      const caption = document.createElement("figcaption"), title = document.createElement("span");
      caption.className = "row";
      title.className = "grow";
      title.textContent = panel.title;
      this.now = document.createElement("b");
      caption.append(title, this.now);
      this.hole = document.createElement("div");
      this.hole.className = "drawing";
      this.hole.setAttribute("role", "img");
      this.legend = document.createElement("div");
      this.legend.className = "meta";
      this.figure.append(caption, this.hole, this.legend);
      place.append(this.figure);
      this.said = said;
      this.names = panel.lines.map((line, number) => {
        const name = document.createElement("span");
        name.className = `line line-${number}`;
        this.legend.append(name);
        return name;
      });
      this.beside = document.createElement("span");
      this.legend.append(this.beside);
      this.draw(panel);
    }

    draw(panel) {
      this.panel = panel;
      const top = topOf(panel), axis = { stroke: token("--soft"), font: "12px system-ui, sans-serif", ticks: { show: false } };
      if (this.chart) this.chart.destroy();
      this.chart = new uPlot({
        width: Math.max(200, this.hole.clientWidth), height: HEIGHT, legend: { show: false }, padding: [6, 4, 0, 0],
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "session" } },
        scales: { x: { time: true, range: () => this.range }, y: { range: [0, top] } },
        axes: [
          { ...axis, size: 28, gap: 8, grid: { show: false }, space: 72, values: (_chart, found) => this.times(found) },
          { ...axis, size: UNITS, gap: 4, splits: () => marks(this.panel, top), values: (_chart, found) => found.map(words[panel.unit]), grid: { stroke: token("--line"), width: 1 } },
        ],
        series: [{}, ...panel.lines.map((_line, number) => ({ stroke: token(number ? "--start" : "--run"), width: 1.75, points: { size: 4, filter: (_chart, place) => lonely(panel.lines[place - 1].values) }, spanGaps: false }))],
        hooks: { drawAxes: [(chart) => { levelLine(chart, 0, "--idle", []); if (panel.full) levelLine(chart, panel.full, "--soft", [4, 4]); }], setCursor: [() => this.say()] },
      }, [panel.times, ...panel.lines.map((line) => line.values)], this.hole);
      this.say();
    }

    times(found) {
      const [first, last] = this.range, across = this.hole.clientWidth - UNITS, told = clock(this.range);
      return found.map((at) => (last - at) / (last - first) * across < LABEL / 2 ? "" : told(at));
    }

    // What is pointed at, else the newest.
    say() {
      const at = this.chart && this.chart.cursor.idx, panel = this.panel, alone = panel.lines.length === 1;
      const over = at !== null && at !== undefined && this.chart.cursor.left >= 0;
      const value = (line) => {
        const found = over ? line.values[at] : latest(line.values);
        return found === null || found === undefined ? this.said.unknown : words[panel.unit](found);
      };
      this.now.textContent = !alone ? "" : over ? value(panel.lines[0]) : panel.now;
      this.names.forEach((name, number) => { name.textContent = alone ? "" : `${panel.lines[number].name} ${value(panel.lines[number])}`; });
      this.beside.textContent = over ? new Date(panel.times[at] * 1000).toLocaleString(document.documentElement.lang, { weekday: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }) : "";
      this.hole.setAttribute("aria-label", `${panel.title}: ${panel.now}`);
    }
  }

  class Charts {
    constructor(card) {
      this.card = card;
      this.place = card.querySelector("[data-place]");
      this.empty = card.querySelector("[data-empty]");
      this.span = card.dataset.span;
      this.drawn = new Map();
      this.panels = new Map();
      this.asked = 0;
      card.querySelectorAll("a[data-span]").forEach((link) => link.addEventListener("click", (event) => {
        event.preventDefault();
        this.choose(link.dataset.span);
      }));
      new ResizeObserver(() => this.drawn.forEach((one) => {
        const width = Math.max(200, one.hole.clientWidth);
        if (one.chart && width !== one.chart.width) one.chart.setSize({ width, height: HEIGHT });
      })).observe(this.place);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
      this.look(true);
    }

    choose(span) {
      this.span = span;
      this.card.querySelectorAll("a[data-span]").forEach((link) => link.toggleAttribute("aria-current", false));
      this.card.querySelector(`a[data-span="${span}"]`).setAttribute("aria-current", "true");
      const address = new URL(location.href);
      address.searchParams.set("span", span);
      history.replaceState(null, "", address); // what is looked at can be shared
      this.look(true);
    }

    async look(anew = false) {
      if (!anew && (Date.now() - this.asked < LEAST_MS || document.hidden)) return;
      this.asked = Date.now();
      const span = this.span, from = anew || !this.newest ? "" : `&from=${this.newest - 3 * Math.max(this.step, 5)}`;
      let found;
      try {
        const answer = await fetch(`${this.card.dataset.charts}?span=${span}${from}`, { cache: "no-store" });
        if (!answer.ok) return;
        found = await answer.json();
      } catch {
        return; // the page itself says that it is cut off
      }
      if (span !== this.span) return;
      if (from && found.step_s !== this.step) return this.look(true);
      this.step = found.step_s;
      this.take(found, Boolean(from));
    }

    take(found, isMore) {
      let newest = 0;
      for (const panel of found.panels) {
        const known = isMore ? this.panels.get(panel.key) : null;
        this.panels.set(panel.key, known ? joined(known, panel, found.since) : panel);
        newest = Math.max(newest, panel.times[panel.times.length - 1] || 0);
      }
      this.newest = newest || this.newest;
      this.range = [found.since, found.until];
      const any = [...this.panels.values()].some((panel) => panel.lines.some((line) => line.values.some((value) => value !== null)));
      this.empty.hidden = any;
      this.place.hidden = !any;
      if (any) this.redraw();
      this.card.dataset.points = String(Math.max(0, ...[...this.panels.values()].map((panel) => panel.times.length)));
      this.card.dataset.newest = String(this.newest || 0);
    }

    redraw() {
      for (const [key, panel] of this.panels) {
        const one = this.drawn.get(key);
        if (!one) { this.drawn.set(key, new Drawn(this.place, panel, this.range, this.place.dataset)); continue; }
        one.range = this.range;
        one.draw(panel);
      }
    }
  }

  const joined = (known, more, since) => {
    const first = more.times[0] ?? Infinity;
    const keep = known.times.map((at, place) => [at, place]).filter(([at]) => at >= since && at < first).map(([, place]) => place);
    const lines = more.lines.map((line, number) => ({ name: line.name, values: [...keep.map((place) => known.lines[number].values[place]), ...line.values] }));
    return { ...more, times: [...keep.map((place) => known.times[place]), ...more.times], lines };
  };

  let charts = null;
  const begin = () => {
    const card = document.querySelector("[data-charts]");
    if (card && (!charts || charts.card !== card)) charts = new Charts(card);
  };
  const again = () => { begin(); if (charts) charts.look(); };
  document.body.addEventListener("live-tick", again);
  document.body.addEventListener("live-changed", again);
  document.body.addEventListener("htmx:afterSwap", begin); // a session that waited has begun
  begin();
})();
