// The table of live flows: sorted, filtered, and at most MAX_ROWS of them drawn.

import { FLOWS, LEGS } from "./figures.js";
import { columns, count, fillRows, make, mark, say } from "./text.js";

const MAX_ROWS = 200;

const STATES = {
  "dialling": "dialling",
  "open": "open",
  "accept-half-closed": "client done",
  "dial-half-closed": "next hop done",
  "closing": "closing",
  "ended": "ended",
};

const state = (row) => STATES[row.state] ?? row.state;

// What shows the limit of a flow, and what to change.
const proof = ({ finding }) => (finding ? [finding.evidence, finding.advice].filter(Boolean).join(". ") : "");

// What shows the rate that a flow would have without relays.
const ceiling = ({ gain }) => gain?.evidence ?? "";

// A row is a flow and its rates. `value` sorts, `text` is drawn, and `hint` explains it.
const OF_FLOW = columns(FLOWS, {
  state: { value: state, text: state },
  "finding.kind": { hint: proof },
  "gain.says": { hint: ceiling },
  cap: { text: (row) => row.cap ?? "" },
});
const isCap = (column) => column.title === "cap";
// The cap is a line below the others.
const COLUMNS = [...OF_FLOW.filter((column) => !isCap(column)), ...leg("accept"), ...leg("dial"), ...OF_FLOW.filter(isCap)];

function leg(name) {
  const figures = LEGS.map((figure) => ({ ...figure, path: `${name}.${figure.path}` }));
  return columns(figures).map((column) => ({ ...column, leg: name, label: `${name} ${column.title}` }));
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
    this.#rows = flows.map((flow) => ({ ...flow, rates: history.flows.get(flow.flow) }));
    this.#draw();
  }

  #hold(held) {
    this.#held = held;
    this.find("hold").setAttribute("aria-pressed", String(held));
    this.#draw();
  }

  #makeHead() {
    const legs = make("tr", { class: "legs" }, make("td", { colspan: OF_FLOW.length - 1 }));
    for (const name of ["accept", "dial"]) {
      const columns = COLUMNS.filter((column) => column.leg === name).length;
      legs.append(make("th", { scope: "colgroup", colspan: columns }, `${name} leg`));
    }
    const cell = (column) => {
      const button = make("button", { type: "button" }, column.title, make("span", { class: "arrow", "aria-hidden": "true" }));
      if (column.leg) button.setAttribute("aria-label", column.label);
      button.addEventListener("click", () => this.#sortBy(column, this.#by === column ? !this.#descending : column.number));
      return make("th", { scope: "col", class: column.number ? "number" : "", "data-label": column.title }, button);
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
      const texts = [String(row.flow), row.proxy ?? "", row.transfer ?? "", row.next_hop ?? "", ...columns.map((column) => column.text(row))];
      const all = texts.join("\n").toLowerCase();
      return words.every((word) => all.includes(word));
    });
  }

  // Sorts flows without a value last, and equal ones by their numbers.
  #compare(one, two) {
    const [a, b] = [this.#by.value(one), this.#by.value(two)];
    if (a == null || b == null) return (a == null) - (b == null) || one.flow - two.flow;
    const order = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
    return (this.#descending ? -order : order) || one.flow - two.flow;
  }
}
