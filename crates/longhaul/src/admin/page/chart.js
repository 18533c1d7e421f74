// The two drawings: throughput as a chart, and results of verify as a strip. Both tell one value in words: the one that the
// pointer or the arrow keys have chosen, or else the newest.

import { age, clock, count, duration, list, make, makeSvg, milliseconds, mark, rate, say, sayOrHide } from "./text.js";

const [WIDTH, HEIGHT] = [600, 100];
// Shorter times that a chart of ten minutes shows while there is no more, in seconds.
const SHORT_SPANS = [60, 120, 300];
// Number of times in which the tunnel was not well that are told in words, the newest ones.
const MAX_INCIDENTS = 3;
// Smallest rate at the top of a chart, in bits per second.
const MIN_TOP = 1e3;
// Number of results that a strip has room for.
const RESULTS = 100;

// A drawing with a value that is chosen. Arrow keys, Page up and down, Home and End choose one; Escape chooses none.
class Chooser {
  // Index of the chosen value, or null.
  chosen = null;

  constructor(label, drawing, words) {
    this.words = words;
    this.drawing = drawing;
    this.cursor = makeSvg("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    drawing.append(this.cursor);
    this.node = make("div", { class: "drawing", role: "slider", tabindex: 0, "aria-label": label, "aria-valuemin": 0 }, drawing);
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("pointermove", (event) => this.#point(event));
    this.node.addEventListener("pointerdown", (event) => this.#point(event));
    this.node.addEventListener("pointerleave", () => this.choose(null));
    this.node.addEventListener("blur", () => this.choose(null));
  }

  // Sets the number of values. `shift` is the number of those that were removed at the front.
  size(number, shift = 0) {
    this.number = number;
    mark(this.node, "aria-valuemax", String(Math.max(0, number - 1)));
    const stays = this.chosen !== null && this.chosen >= shift && number > 0;
    this.choose(stays ? Math.min(this.chosen - shift, number - 1) : null);
  }

  choose(index) {
    this.chosen = index;
    const shown = index ?? this.number - 1;
    const at = index === null ? null : this.place(index);
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) ["x1", "x2"].forEach((name) => this.cursor.setAttribute(name, at.toFixed(1)));
    const text = shown >= 0 ? this.tell(shown, index !== null) : this.nothing;
    say(this.words, text);
    // A screen reader says each change of a focused slider. So the newest value does not move it.
    if (index !== null || document.activeElement !== this.node) {
      mark(this.node, "aria-valuenow", String(Math.max(0, shown)));
      mark(this.node, "aria-valuetext", text);
    }
  }

  #key(event) {
    const last = this.number - 1;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    const ends = { Home: 0, End: last, Escape: null };
    if (last < 0 || !(event.key in steps || event.key in ends)) return;
    event.preventDefault();
    const next = Math.min(last, Math.max(0, (this.chosen ?? last) + steps[event.key]));
    this.choose(event.key in ends ? ends[event.key] : next);
  }

  #point(event) {
    const box = this.drawing.getBoundingClientRect();
    if (this.number > 0 && box.width > 0) this.choose(this.nearest((event.clientX - box.left) / box.width * WIDTH));
  }
}

// Figures of a tunnel over time: a solid line up, a dashed one down, a dotted one for the cap, and a mark where it was not well.
export class Chart extends Chooser {
  samples = [];
  now = 0;
  #incidents = [];

  constructor(label) {
    const lines = ["up", "down", "cap"].map((way) => makeSvg("path", { class: `line ${way}` }));
    const grid = makeSvg("path", { class: "grid", d: `M0 ${HEIGHT / 2}H${WIDTH}M0 0H${WIDTH}M0 ${HEIGHT}H${WIDTH}` });
    const marks = makeSvg("g");
    const words = make("span", { class: "words" });
    super(label, makeSvg("svg", { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      marks, grid, ...lines), words);
    [this.lines, this.marks] = [lines, marks];
    this.incidents = make("ul", { class: "incidents" });
    this.more = make("p", { class: "more", hidden: "" });
    this.begin = make("span");
    this.top = make("span", { class: "top", "aria-hidden": "true" });
    this.whole = make("div", { class: "chart" }, words, this.top, this.node,
      make("div", { class: "axis", "aria-hidden": "true" }, this.begin,
        make("span", {}, key("up"), " up   ", key("down"), " down   ", key("cap"), " cap"), make("span", {}, "now")), this.incidents, this.more);
  }

  // Draws a curve of `span` as it is at `now`. Without a curve, its answer is awaited.
  draw(curve, span, now) {
    const { samples, incidents } = curve ?? { samples: [], incidents: [] };
    this.nothing = curve ? "no figures yet" : "loading the figures";
    const removed = samples.length > 0 ? this.samples.findIndex((sample) => sample.time === samples[0].time) : 0;
    [this.samples, this.now] = [samples.slice(), now];
    const first = samples.length > 0 ? now - samples[0].time : 0;
    this.span = (span.seconds > 600 ? [] : SHORT_SPANS).find((short) => short >= first) ?? span.seconds;
    say(this.begin, this.span < 3600 ? `${this.span / 60} min ago` : `${this.span / 3600} h ago`);
    const top = niceTop(Math.max(MIN_TOP, ...samples.map((sample) => Math.max(sample.up, sample.down))));
    say(this.top, rate(top).replace(".00", ""));
    ["up", "down", "cap"].forEach((name, index) => this.lines[index].setAttribute("d", this.#path(name, top)));
    this.#drawIncidents(incidents);
    this.size(samples.length, Math.max(0, removed));
  }

  #drawIncidents(incidents) {
    while (this.marks.children.length > incidents.length) this.marks.lastElementChild.remove();
    while (this.marks.children.length < incidents.length) this.marks.append(makeSvg("rect", { y: 0, height: HEIGHT }));
    incidents.forEach((incident, index) => {
      const [from, until] = [incident.from_unix_seconds, incident.until_unix_seconds].map((time) => Math.max(0, this.#x(time)));
      mark(this.marks.children[index], "x", from.toFixed(1));
      mark(this.marks.children[index], "width", Math.max(2, until - from).toFixed(1));
      mark(this.marks.children[index], "class", incident.health === "broken" ? "mark broken" : "mark");
    });
    this.#incidents = incidents;
    list(this.incidents, incidents.slice(-MAX_INCIDENTS).reverse(), () => make("li"), (item, incident) => {
      mark(item, "data-tone", incident.health === "broken" ? "bad" : "warn");
      const [from, until] = [incident.from_unix_seconds, incident.until_unix_seconds].map(clock);
      say(item, sign(incident, incident.goes_on ? ` since ${from}, still` : ` from ${from} to ${until}`));
    });
    sayOrHide(this.more, incidents.length > MAX_INCIDENTS ? `not well ${incidents.length} times; the last ${MAX_INCIDENTS} are shown` : null);
  }

  // A rate holds from the sample before until its own time, so the line has steps. A part above the top is left out.
  #path(name, top) {
    let path = "";
    let end = null;
    for (const sample of this.samples) {
      if (sample[name] == null || sample[name] > top) continue;
      const begin = Math.max(0, this.#x(sample.time - sample.seconds));
      const y = (HEIGHT * (1 - sample[name] / top)).toFixed(1);
      path += end !== null && begin - end < 0.5 ? `V${y}` : `M${begin.toFixed(1)} ${y}`;
      end = this.#x(sample.time);
      path += `H${end.toFixed(1)}`;
    }
    return path;
  }

  #x(time) {
    return WIDTH * (1 - (this.now - time) / this.span);
  }

  place(index) {
    return this.#x(this.samples[index].time);
  }

  nearest(x) {
    const index = this.samples.findIndex((sample) => this.#x(sample.time) >= x);
    return index < 0 ? this.samples.length - 1 : index;
  }

  tell(index, isChosen) {
    const sample = this.samples[index];
    const words = [`up ${rate(sample.up)}`, `down ${rate(sample.down)}`, count(sample.flows, "flow")];
    if (sample.rtt != null) words.push(`RTT ${milliseconds(sample.rtt)}`);
    if (sample.failed > 0) words.push(`${count(sample.failed, "dial")} failed`);
    if (sample.whole + sample.broken > 0) words.push(`verify: ${sample.whole} whole, ${sample.broken} broken`);
    if (sample.cap != null) words.push(`cap ${rate(sample.cap)}`);
    const middle = sample.time - sample.seconds / 2;
    words.push(...this.#incidents.filter((incident) => incident.from_unix_seconds <= middle && middle < incident.until_unix_seconds).map((incident) => sign(incident)));
    // The figures of minutes come once a minute.
    const isNow = !isChosen && this.now - sample.time < 2;
    return `${isNow ? "now" : clock(sample.time)}: ${words.join(", ")}`;
  }
}

// Returns an incident in words. `when` says its time.
function sign({ health, stage }, when = "") {
  return `${health === "broken" ? "✗" : "!"} not well${when}: at worst ${health} at the ${stage}`;
}

// Returns a piece of a line, which explains it.
function key(way) {
  return makeSvg("svg", { class: "key", viewBox: "0 0 30 4" }, makeSvg("path", { class: `line ${way}`, d: "M0 2H30" }));
}

// Returns the next rate above `rate` that begins with 1, 2 or 5.
function niceTop(rate) {
  const power = 10 ** Math.floor(Math.log10(rate));
  return power * [1, 2, 5, 10].find((step) => step * power >= rate);
}

// Results of verify: a low bar is a whole path, a high one a broken path.
export class Strip extends Chooser {
  nothing = "no result yet";
  results = [];

  constructor(label) {
    const bars = makeSvg("g");
    const words = make("span", { class: "words" });
    super(label, makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, bars), words);
    this.bars = bars;
    this.node.classList.add("strip");
    this.whole = make("div", { class: "chart" }, words, this.node);
  }

  // Draws `results`, the newest last.
  draw(results, now) {
    const removed = this.results.findIndex((result) => result.unix_seconds === results[0]?.unix_seconds);
    [this.results, this.now] = [results.slice(-RESULTS), now];
    const width = WIDTH / RESULTS;
    while (this.bars.children.length > this.results.length) this.bars.lastElementChild.remove();
    while (this.bars.children.length < this.results.length) this.bars.append(makeSvg("rect", { width: width - 1 }));
    this.results.forEach((result, index) => {
      const [bar, height] = [this.bars.children[index], result.whole ? HEIGHT / 3 : HEIGHT];
      mark(bar, "x", (this.place(index) - width / 2).toFixed(1));
      mark(bar, "y", (HEIGHT - height).toFixed(1));
      mark(bar, "height", height.toFixed(1));
      mark(bar, "class", result.whole ? "whole" : "broken");
    });
    this.size(this.results.length, Math.max(0, removed));
  }

  place(index) {
    return (RESULTS - this.results.length + index + 0.5) * WIDTH / RESULTS;
  }

  nearest(x) {
    const index = Math.floor(x * RESULTS / WIDTH) - (RESULTS - this.results.length);
    return Math.min(this.results.length - 1, Math.max(0, index));
  }

  tell(index, isChosen) {
    const result = this.results[index];
    const parts = [result.whole ? "whole" : `broken: ${[result.stage, result.cause].filter(Boolean).join(", ")}`];
    parts.push(`took ${duration(result.seconds)}`);
    if (result.rtt_ms != null) parts.push(`RTT ${milliseconds(result.rtt_ms)}`);
    if (result.goodput_bits_per_second != null) parts.push(rate(result.goodput_bits_per_second));
    if (isChosen) return `${clock(result.unix_seconds)}: ${parts.join(", ")}`;
    const broken = this.results.filter((result) => !result.whole).length;
    const last = `last probe ${age(this.now - result.unix_seconds)} ago: ${parts.join(", ")}`;
    return `${last}; ${broken} broken of ${count(this.results.length, "result")}`;
  }
}
