// The table of live flows: sorted, filtered, and at most MAX_ROWS of them drawn.

import { age, bytes, count, fillRows, make, mark, milliseconds, rate, say } from "./text.js";

const MAX_ROWS = 200;

const STATES = {
  "dialling": "dialling",
  "open": "open",
  "accept-half-closed": "client done",
  "dial-half-closed": "next hop done",
  "closing": "closing",
  "ended": "ended",
};

const text = (title, value) => ({ title, value, text: (row) => String(value(row) ?? "-") });
const number = (title, value, text) => ({ title, value, number: true, text: (row) => (value(row) == null ? "-" : text(value(row))) });

// A row is a flow and its rates. `value` sorts, and `text` is drawn.
const COLUMNS = [
  number("flow", ({ flow }) => flow.flow, String),
  text("tunnel", ({ flow }) => flow.tunnel),
  text("client", ({ flow }) => flow.peer),
  text("next hop", ({ flow }) => flow.next_hop_address ?? flow.next_hop),
  text("state", ({ flow }) => STATES[flow.state] ?? flow.state),
  number("age", ({ flow }) => flow.age_seconds, age),
  number("rate up", ({ rates }) => rates?.up, rate),
  number("rate down", ({ rates }) => rates?.down, rate),
  number("up", ({ flow }) => flow.up_bytes, bytes),
  number("down", ({ flow }) => flow.down_bytes, bytes),
  ...leg("accept", ({ flow }) => flow.accept),
  ...leg("dial", ({ flow }) => flow.dial),
];

function leg(name, of) {
  const columns = [
    number("RTT", (row) => of(row)?.rtt_ms, milliseconds),
    number("cwnd", (row) => of(row)?.cwnd_segments, String),
    number("retrans", (row) => of(row)?.retrans_bytes, bytes),
    number("delivery", (row) => of(row)?.delivery_bits_per_second, rate),
    text("control", (row) => of(row)?.congestion),
    text("limited by", (row) => of(row)?.limit),
  ];
  return columns.map((column) => ({ ...column, leg: name, label: `${name} ${column.title}` }));
}

const TOTAL_RATE = { label: "rate, both ways", value: ({ rates }) => (rates ? rates.up + rates.down : 0), number: true };

export class Flows {
  #rows = [];
  #by = TOTAL_RATE;
  #descending = true;
  #held = false;

  // `find` returns the element with an id.
  constructor(find) {
    this.find = find;
    this.head = find("flows").tHead;
    this.body = find("flows").tBodies[0];
    this.#makeHead();
    this.choices = [TOTAL_RATE, ...COLUMNS];
    find("sort").append(...this.choices.map((column, index) => make("option", { value: index }, column.label ?? column.title)));
    find("sort").addEventListener("change", (event) => this.#sortBy(this.choices[event.target.value]));
    find("direction").addEventListener("click", () => this.#sortBy(this.#by, !this.#descending));
    find("filter").addEventListener("input", () => this.#draw());
    find("hold").addEventListener("click", () => this.#hold(!this.#held));
  }

  // Takes the flows of an answer.
  update(flows, history) {
    if (this.#held) return;
    this.#rows = flows.map((flow) => ({ flow, rates: history.flows.get(flow.flow) }));
    this.#draw();
  }

  #hold(held) {
    this.#held = held;
    this.find("hold").setAttribute("aria-pressed", String(held));
    this.#draw();
  }

  #makeHead() {
    const legs = make("tr", { class: "legs" }, make("td", { colspan: COLUMNS.filter((column) => !column.leg).length }));
    for (const name of ["accept", "dial"]) {
      const columns = COLUMNS.filter((column) => column.leg === name).length;
      legs.append(make("th", { scope: "colgroup", colspan: columns }, `${name} leg`));
    }
    const cell = (column) => {
      const button = make("button", { type: "button" }, column.title, make("span", { class: "arrow", "aria-hidden": "true" }));
      if (column.leg) button.setAttribute("aria-label", column.label);
      button.addEventListener("click", () => this.#sortBy(column, this.#by === column ? !this.#descending : column.number));
      return make("th", { scope: "col", class: column.number ? "number" : "" }, button);
    };
    this.head.append(legs, make("tr", {}, ...COLUMNS.map(cell)));
  }

  #sortBy(column, descending = Boolean(column.number)) {
    [this.#by, this.#descending] = [column, descending];
    this.#draw();
  }

  #draw() {
    const shown = this.#filtered().sort((one, two) => this.#compare(one, two));
    fillRows(this.body, COLUMNS, shown.slice(0, MAX_ROWS));
    this.#drawOrder();
    const [all, found, drawn] = [this.#rows.length, shown.length, Math.min(shown.length, MAX_ROWS)];
    const matching = this.find("filter").value.trim() ? `${found} of ${count(all, "flow")} match` : count(all, "flow");
    const rest = found > drawn ? `, the first ${drawn} are shown, ${found - drawn} are not` : "";
    say(this.find("flow-count"), matching + rest + (this.#held ? ", held still" : ""));
  }

  #drawOrder() {
    const [by, descending] = [this.#by, this.#descending];
    this.find("sort").value = String(this.choices.indexOf(by));
    const words = by.number ? ["smallest first", "largest first"] : ["A to Z", "Z to A"];
    say(this.find("direction"), words[Number(descending)]);
    [...this.head.rows[1].cells].forEach((cell, index) => {
      const is = COLUMNS[index] === by;
      mark(cell, "aria-sort", is ? (descending ? "descending" : "ascending") : "none");
      say(cell.querySelector(".arrow"), is ? (descending ? " ▼" : " ▲") : "");
    });
  }

  // Returns the flows with each word of the filter in one of these texts.
  #filtered() {
    const words = this.find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return this.#rows.slice();
    const columns = COLUMNS.filter((column) => !column.number);
    return this.#rows.filter((row) => {
      const texts = [String(row.flow.flow), row.flow.proxy ?? "", row.flow.transfer ?? "", row.flow.next_hop ?? "", ...columns.map((column) => column.text(row))];
      const all = texts.join("\n").toLowerCase();
      return words.every((word) => all.includes(word));
    });
  }

  // Sorts flows without a value last, and equal ones by their numbers.
  #compare(one, two) {
    const [a, b] = [this.#by.value(one), this.#by.value(two)];
    if (a == null || b == null) return (a == null) - (b == null) || one.flow.flow - two.flow.flow;
    const order = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
    return (this.#descending ? -order : order) || one.flow.flow - two.flow.flow;
  }
}
