// Figures as text, and elements with such texts. A text of the daemon becomes a text node and never markup.

// Returns a number of bytes with its unit: `1.23 GB`.
export function bytes(number) {
  return scaled(number, ["TB", "GB", "MB", "kB"]) ?? `${Math.round(number)} B`;
}

// Returns a rate in bits per second with its unit: `94.12 Mbit/s`.
export function rate(bits) {
  return scaled(bits, ["Tbit/s", "Gbit/s", "Mbit/s", "kbit/s"]) ?? `${Math.round(bits)} bit/s`;
}

function scaled(number, units) {
  const size = [1e12, 1e9, 1e6, 1e3].findIndex((size) => number >= size);
  return size < 0 ? null : `${(number / 1e3 ** (4 - size)).toFixed(2)} ${units[size]}`;
}

// Returns a time in seconds with its two largest units, as `age` of figures.rs: `2h03m`.
export function age(time) {
  const seconds = Number.isFinite(time) ? Math.max(0, Math.floor(time)) : 0;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const two = (number) => String(number).padStart(2, "0");
  if (days >= 1000) return `${days}d`;
  if (days > 0) return `${days}d${two(hours)}h`;
  if (hours > 0) return `${hours}h${two(minutes)}m`;
  return minutes > 0 ? `${minutes}m${two(seconds % 60)}s` : `${seconds}s`;
}

// Returns a short time in seconds with its unit: `31 ms`.
export function duration(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1e3)} ms` : `${seconds.toFixed(1)} s`;
}

// Returns a time in milliseconds with its unit, or `-` without one.
export function milliseconds(time) {
  return time == null ? "-" : `${time.toFixed(1)} ms`;
}

// Returns the local time of `unix`, in seconds since 1970, with the date if it is not today's.
export function clock(unix) {
  const [time, today] = [new Date(unix * 1e3), new Date()];
  const two = (number) => String(number).padStart(2, "0");
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} `;
  const hour = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return time.toDateString() === today.toDateString() ? hour : day + hour;
}

// Returns an amount without its unit. Only bytes have one that depends on the number.
export function amount(number, unit) {
  if (unit === "bytes") return bytes(number);
  return number.toFixed(unit === "CPUs" ? 2 : 0);
}

// Returns `number` with the noun: `1 flow`, `2 flows`.
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

// Makes an element with attributes and children. A string becomes a text node.
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// Makes an element of SVG.
export function makeSvg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Sets the text of `node` if it is another one, so that an unchanged page is not laid out again.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Shows `node` with this text, or hides it without one.
export function sayOrHide(node, text) {
  node.hidden = !text;
  say(node, text ?? "");
}

// Sets an attribute if it has another value.
export function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Makes the children of `parent` as many as `items`. `create` makes a child, and `update` fills it.
export function list(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(create());
  items.forEach((item, index) => update(parent.children[index], item, index));
}

// Functions that write a number, by its unit.
const WRITERS = { count: String, bytes, rate, milliseconds, age };

// Makes the columns of a table from a list of figures.js. `special` has other parts of some columns, by their paths.
export function columns(figures, special = {}) {
  return figures.map(({ heading, path, unit }) => {
    const value = (item) => path.split(".").reduce((part, name) => part?.[name], item);
    const text = (item) => (value(item) == null ? "-" : (WRITERS[unit] ?? String)(value(item)));
    return { title: heading, value, text, number: unit !== null, ...special[path] };
  });
}

// Fills the body of a table. A column has a title, a text, and perhaps a tone and a hint, each by its item.
export function fillRows(body, columns, items) {
  const row = () => make("tr", {}, ...columns.map((column) =>
    make("td", { "data-label": column.label ?? column.title, class: column.number ? "number" : "" })));
  list(body, items, row, (row, item) => columns.forEach((column, index) => {
    const cell = row.children[index];
    say(cell, column.text(item));
    if (column.tone) mark(cell, "data-tone", column.tone(item));
    if (column.hint) mark(cell, "title", column.hint(item));
  }));
}
