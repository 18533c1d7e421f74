// A card for each tunnel: its cap, its figures over time, its next hops, its results of verify.

import { Chart, Strip } from "./chart.js";
import { HOPS, TUNNELS } from "./figures.js";
import { age, amount, clock, columns, count, fillRows, list, make, mark, say, sayOrHide } from "./text.js";

// Maximum number of cards. Those of tunnels with problems are the first.
const MAX_CARDS = 40;

const GOOD = { tone: "good", sign: "✓", word: "WHOLE", tunnel: "✓ no problem", rank: 2 };
const WARNING = { tone: "warn", sign: "!", word: "WHOLE", problem: "! warning", tunnel: "! warning", rank: 1 };
const DOUBTFUL = { ...WARNING, word: "WHOLE, but DOUBTFUL" };
const BROKEN = { tone: "bad", sign: "✗", word: "NOT WHOLE", problem: "✗ BROKEN", tunnel: "✗ broken", rank: 0 };

// How each health is shown: of the daemon, a tunnel, a next hop, a problem, the results of verify. `hop` stands behind the state of
// a next hop, if the state itself does not tell.
export const HEALTH = {
  good: { ...GOOD, hop: "" },
  waiting: { ...GOOD, tone: "none", sign: "…", hop: "" },
  unknown: { ...WARNING, hop: "" },
  failing: { ...WARNING, hop: ", failing" },
  stalled: { ...DOUBTFUL, hop: ", doubtful" },
  doubtful: { ...DOUBTFUL, hop: ", doubtful" },
  broken: { ...BROKEN, hop: ", broken" },
};

const HOP_STATES = {
  "up": "up",
  "slow-start": "slow start",
  "ejected": "ejected",
  "down": "down",
};

// The state of a hop, with its health if the state does not tell that it is not well.
function hopState(hop) {
  const isDialled = hop.state === "up" || hop.state === "slow-start";
  return HOP_STATES[hop.state] + (isDialled ? HEALTH[hop.health].hop : "");
}

const HOP_COLUMNS = columns(HOPS, {
  state: { text: (hop) => `${HEALTH[hop.health].sign} ${hopState(hop)}`, tone: (hop) => HEALTH[hop.health].tone },
  failure: { tone: (hop) => (hop.failure ? "warn" : "none") },
  failed_dials: { tone: (hop) => (hop.failed_dials > 0 ? "warn" : "none") },
});
const TUNNEL_COLUMNS = columns(TUNNELS);

const VERIFY_STATES = {
  whole: "whole",
  broken: "broken",
  pending: "no result yet",
};

// The cards below `parent`.
export class Tunnels {
  #cards = [];

  constructor(parent, more, none) {
    Object.assign(this, { parent, more, none });
  }

  draw(snapshot, history) {
    const now = snapshot.unix_seconds;
    const rank = (tunnel) => HEALTH[tunnel.health].rank;
    const tunnels = [...snapshot.tunnels].sort((one, two) => rank(one) - rank(two));
    const shown = tunnels.slice(0, MAX_CARDS);
    const rest = tunnels.length - shown.length;
    sayOrHide(this.more, rest > 0 ? `and ${count(rest, "tunnel")} more; longhaul status has them all` : null);
    this.none.hidden = tunnels.length > 0;
    this.#keep(shown.map((tunnel) => tunnel.name));
    shown.forEach((tunnel, index) => this.#cards[index].draw(tunnel, history, now));
  }

  // Has a card for each name, in this order. A card moves with its tunnel, so that its focus stays.
  #keep(names) {
    if (names.length === this.#cards.length && names.every((name, index) => this.#cards[index].name === name)) return;
    const old = new Map(this.#cards.map((card) => [card.name, card]));
    this.#cards = names.map((name) => old.get(name) ?? new Card(name));
    const focused = document.activeElement;
    this.parent.replaceChildren(...this.#cards.map((card) => card.node));
    if (this.parent.contains(focused)) focused.focus({ preventScroll: true });
  }
}

// Returns the id of a tunnel's card.
export function cardId(name) {
  return `tunnel-${encodeURIComponent(name)}`;
}

class Card {
  constructor(name) {
    this.name = name;
    this.chart = new Chart(`figures of ${name} over time`);
    this.strip = new Strip(`results of verify of ${name}`);
    this.state = make("span", { class: "state" });
    this.about = make("p", { class: "about" });
    this.cap = make("p", { class: "about" });
    this.saved = make("p", { class: "about" });
    this.hops = make("tbody");
    this.verifyState = make("span", { class: "state" });
    this.verifyWhy = make("span");
    this.verify = make("div", { class: "verify" },
      make("p", {}, "Verify: ", this.verifyState, " ", this.verifyWhy), this.strip.whole);
    const head = make("tr", {}, ...HOP_COLUMNS.map((column) =>
      make("th", { scope: "col", class: column.number ? "number" : "" }, column.title)));
    const title = make("h3", { id: cardId(name), tabindex: -1 }, name);
    this.node = make("section", { class: "card", "aria-labelledby": cardId(name) },
      make("div", { class: "card-head" }, title, this.state), this.about, this.saved, this.cap, this.chart.whole,
      make("table", { class: "stack hops" }, make("thead", {}, head), this.hops), this.verify);
  }

  draw(tunnel, history, now) {
    const health = HEALTH[tunnel.health];
    say(this.state, health.tunnel);
    mark(this.state, "data-tone", health.tone);
    const listens = tunnel.listening ? `listens on ${tunnel.listen}` : `does not listen on ${tunnel.listen}`;
    const figures = TUNNEL_COLUMNS.map((column) => `${column.text(tunnel)} ${column.title}`);
    say(this.about, [listens, count(tunnel.flows_now, "flow"), ...figures].join(", "));
    sayOrHide(this.cap, tunnel.cap);
    sayOrHide(this.saved, saved(tunnel.saved_hours));
    this.chart.draw(history.tunnels.get(tunnel.name), history.span, now);
    fillRows(this.hops, HOP_COLUMNS, tunnel.next_hops);
    this.verify.hidden = !tunnel.verify;
    if (tunnel.verify) this.#drawVerify(tunnel.verify, now);
  }

  #drawVerify(verify, now) {
    const health = HEALTH[verify.health];
    say(this.verifyState, `${health.sign} ${VERIFY_STATES[verify.state]}`);
    mark(this.verifyState, "data-tone", health.tone);
    const isBroken = verify.state === "broken";
    const at = isBroken ? `at ${[verify.stage, verify.cause].filter(Boolean).join(": ")}` : "";
    const why = verify.why ? `(${verify.why})` : "";
    const since = verify.state === "pending" ? "" : `since ${clock(verify.since_unix_seconds)},`;
    const told = [at, why, since, `every ${age(verify.interval_seconds)}`].filter(Boolean).join(" ");
    const last = verify.last_unix_seconds == null ? "" : `last result ${age(now - verify.last_unix_seconds)} ago, no newer one: `;
    say(this.verifyWhy, told + (verify.no_newer ? `; ${last}${verify.no_newer}` : ""));
    this.strip.draw(verify.history, now);
  }
}

// Returns the hours that the relays have saved, unless they are less than a hundredth of one.
function saved({ today, all }) {
  return all >= 0.005 ? `saved by the relays: ${today.toFixed(2)} h today, ${all.toFixed(2)} h in all` : null;
}

// Draws the resources as a list with bars.
export function drawResources(section, parent, resources) {
  section.hidden = resources.length === 0;
  const create = () => make("li", {}, make("span", { class: "name" }), make("span", { class: "amount" }),
    make("span", { class: "bar", "aria-hidden": "true" }, make("span")), make("span", { class: "advice" }));
  list(parent, resources, create, (item, resource) => {
    const [name, amount, bar, advice] = item.children;
    const share = resource.used != null && resource.limit > 0 ? resource.used / resource.limit : null;
    const tone = resource.warning || resource.near_since_unix_seconds ? "warn" : "none";
    mark(item, "data-tone", tone);
    say(name, `${tone === "warn" ? "! " : ""}${resource.name}`);
    say(amount, amountOf(resource, share));
    bar.hidden = share === null;
    bar.firstElementChild.style.width = `${Math.min(100, 100 * (share ?? 0)).toFixed(1)}%`;
    sayOrHide(advice, [resource.warning, resource.remedy].filter(Boolean).join("; "));
  });
}

function amountOf({ used, limit, unit, detail }, share) {
  const word = unit === "bytes" ? "" : ` ${unit}`;
  const text = (number) => amount(number, unit);
  if (used == null) return limit == null ? detail ?? "not known" : `limit ${text(limit)}${word}`;
  if (limit == null) return text(used) + word;
  return `${text(used)} of ${text(limit)}${word}${share === null ? "" : ` (${Math.round(100 * share)} %)`}`;
}
