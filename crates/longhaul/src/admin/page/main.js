// Asks the daemon for its state each second, one request at a time, and not while nobody looks at the page.

import { Flows } from "./flows.js";
import { History, SPANS } from "./history.js";
import { HEALTH, Tunnels, cardId, drawResources } from "./tunnels.js";
import { age, clock, count, list, make, mark, rate, say, sayOrHide } from "./text.js";

const INTERVAL_MS = 1000;
// Time that the daemon has to answer. It says itself after 2 s that it hangs.
const TIMEOUT_MS = 5000;
// Maximum number of problems on the first screen.
const MAX_PROBLEMS = 20;

const PHASES = {
  serving: "serving",
  draining: "draining: longhaul drain --undo ends that",
  stopping: "stopping: it ends with its last flow",
};

const find = (id) => document.getElementById(id);
const history = new History();
const flows = new Flows(find);
const tunnels = new Tunnels(find("tunnels"), find("more-tunnels"), find("no-tunnels"));
// The last answer, and the time since when there is none, in seconds since 1970.
let last = null;
let silentSince = null;
let announced = null;
let timer = null;
let isAsking = false;

async function ask() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  const began = performance.now();
  const { path, span } = history;
  try {
    show(await answer(path), path);
  } catch (err) {
    showSilence(err);
  }
  isAsking = false;
  clearTimeout(timer);
  // The operator may have chosen another time meanwhile.
  timer = setTimeout(ask, history.span !== span ? 0 : Math.max(INTERVAL_MS / 5, INTERVAL_MS - (performance.now() - began)));
}

// Returns the answer of the daemon, or fails with the reason why there is none.
async function answer(path) {
  const asked = fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  const response = await asked.catch((err) => {
    throw new Error(err.name === "TimeoutError" ? "no answer in time" : "cannot connect");
  });
  if (response.ok) return response.json();
  const failure = await response.json().catch(() => ({}));
  throw new Error(failure.error ?? `HTTP status ${response.status}`);
}

function show(snapshot, path) {
  // The page of another version may not fit its answers.
  if (last && last.version !== snapshot.version) return location.reload();
  [last, silentSince] = [snapshot, null];
  history.add(snapshot, path);
  find("figures").classList.remove("old");
  find("problems").classList.remove("old");
  drawBand(snapshot);
  drawFacts(snapshot);
  tunnels.draw(snapshot, history);
  drawResources(find("resources-section"), find("resources"), snapshot.resources ?? []);
  flows.update(snapshot.flows, history);
}

function showSilence(err) {
  silentSince ??= Date.now() / 1e3;
  find("figures").classList.add("old");
  find("problems").classList.add("old");
  const time = last && clock(last.unix_seconds);
  const old = last ? `All below is from ${time}, when it was ${last.ready ? "WHOLE" : "NOT WHOLE"}. ` : "";
  const since = `The daemon has not answered since ${clock(silentSince)}`;
  drawState("gone", "?", "NO ANSWER", `${since}: ${err.message}. ${old}On its host, use longhaul status.`);
  announce(since, since);
}

function drawBand(snapshot) {
  const health = HEALTH[snapshot.health];
  const doubtful = snapshot.problems.filter((problem) => problem.doubtful).length;
  const warnings = snapshot.problems.length;
  const phase = snapshot.phase === "serving" ? "" : `It is ${PHASES[snapshot.phase]}.`;
  const since = snapshot.draining_since_unix_seconds;
  const drains = since == null ? phase : `Since ${clock(since)}, it is ${PHASES.draining}.`;
  const reasons = {
    warn: doubtful > 0 ? `New flows may not be served: ${count(doubtful, "problem")}.`
      : `No problem is fatal, but there ${warnings === 1 ? "is" : "are"} ${count(warnings, "warning")}.`,
    bad: [brokenSince(snapshot), drains].filter(Boolean).join(" ") || "The daemon is not ready.",
  };
  drawState(health.tone, health.sign, health.word, reasons[health.tone] ?? "No problem is known.");
  const now = snapshot.unix_seconds;
  list(find("problems"), snapshot.problems.slice(0, MAX_PROBLEMS), makeProblem, (item, problem) => drawProblem(item, problem, now));
  const rest = snapshot.problems.length - MAX_PROBLEMS;
  sayOrHide(find("more-problems"), rest > 0 ? `and ${count(rest, "problem")} more` : null);
  const name = (problem) => `${problem.tunnel ? `tunnel ${problem.tunnel}, ` : ""}${problem.stage}`;
  const words = snapshot.problems.map((problem) => `${name(problem)}: ${problem.what}`);
  // A text may have a figure that grows, which is no news.
  const news = [find("word").textContent, phase, ...snapshot.problems.map((problem) => name(problem) + problem.health)];
  announce(news.join("\n"), [find("word").textContent, phase, ...words].filter(Boolean).join(". "));
}

// Returns since when the first problem keeps new flows from being served, or nothing if they are.
function brokenSince(snapshot) {
  const fatal = snapshot.problems.filter((problem) => problem.fatal);
  if (fatal.length === 0) return "";
  const since = fatal[0].since_unix_seconds;
  return `Since ${clock(since)}, ${count(fatal.length, "problem")} ${fatal.length === 1 ? "keeps" : "keep"} new flows from being served.`;
}

function drawState(tone, sign, word, reason) {
  mark(find("band"), "data-tone", tone);
  say(find("sign"), sign);
  say(find("word"), word);
  say(find("reason"), reason);
  const title = `${sign} ${word} - ${location.host} - longhaul`;
  if (document.title !== title) document.title = title;
}

function makeProblem() {
  return make("li", {}, make("strong"), " ", make("span", { class: "where" }, make("a"), make("span")),
    make("span"), make("span", { class: "since" }));
}

function drawProblem(item, problem, now) {
  const [word, where, what, since] = item.children;
  const [tunnel, stage] = where.children;
  say(word, HEALTH[problem.health].problem);
  mark(word, "data-tone", HEALTH[problem.health].tone);
  sayOrHide(tunnel, problem.tunnel ? `tunnel ${problem.tunnel}` : null);
  mark(tunnel, "href", `#${encodeURIComponent(cardId(problem.tunnel ?? ""))}`);
  say(stage, `${problem.tunnel ? ", " : ""}${problem.stage}`);
  say(what, `: ${problem.what}`);
  say(since, `since ${clock(problem.since_unix_seconds)}, for ${age(now - problem.since_unix_seconds)}`);
}

function drawFacts(snapshot) {
  const total = history.total;
  const facts = [
    ["throughput up", total ? rate(total.up) : "-"],
    ["throughput down", total ? rate(total.down) : "-"],
    ["flows", String(snapshot.flows.length)],
    ...(snapshot.cap ? [["all tunnels", snapshot.cap]] : []),
    ...(snapshot.paths ?? []).map((path) => ["bandwidth auto", path.says]),
    ...(snapshot.paths?.length === 0 ? [["bandwidth auto", "no WAN path"]] : []),
    ["phase", PHASES[snapshot.phase] ?? snapshot.phase],
    ["running for", age(snapshot.uptime_seconds)],
    ["version", `longhaul ${snapshot.version}, pid ${snapshot.pid}`],
  ];
  list(find("facts"), facts, () => make("div", {}, make("dt"), make("dd")), (item, [name, value]) => {
    say(item.children[0], name);
    say(item.children[1], value);
  });
}

// Tells screen readers `words` if `news` is another one than the last time.
function announce(news, words) {
  if (news !== announced) say(find("announcement"), words);
  announced = news;
}

// The buttons that choose the time of the charts.
const spans = SPANS.map((span) => {
  const button = make("button", { type: "button" }, span.words);
  button.addEventListener("click", () => chooseSpan(span));
  find("spans").append(button);
  return button;
});

function chooseSpan(span) {
  history.choose(span);
  SPANS.forEach((one, index) => mark(spans[index], "aria-pressed", String(one === span)));
  if (last) tunnels.draw(last, history);
  clearTimeout(timer);
  ask();
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : ask()));
chooseSpan(SPANS[0]);
