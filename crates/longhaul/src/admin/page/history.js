// What the page knows of earlier times: the daemon's own history, which it asks for now and then, and what the answers since then add.

// The times that the charts can show: the value of `history` in a request, the words, and the length in seconds.
export const SPANS = [
  { name: "10m", words: "10 min", seconds: 600 },
  { name: "1h", words: "1 h", seconds: 3600 },
  { name: "24h", words: "24 h", seconds: 86400 },
];

// Time after which the daemon's history is asked for again. By the second, the answers between have most of it.
const REFRESH_SECONDS = 60;
// Time without an answer after which it is asked for at once: somebody looks at the page again.
const GAP_SECONDS = 5;

// The figures of each tunnel over time, and the rate of each flow.
export class History {
  // The time that the charts show.
  span = SPANS[0];
  // Name of a tunnel to its curve: samples, the oldest first, and the times in which it was not well. A sample has the figures from
  // `seconds` before its time until its time.
  tunnels = new Map();
  // Number of a flow to its rates.
  flows = new Map();
  // Rates of the process.
  total = null;
  #last = null;
  // Time of the answer with the daemon's history, on the daemon's clock.
  #refreshed = null;

  // Shows another time from the next answer on, and nothing until then.
  choose(span) {
    this.span = span;
    this.#refreshed = null;
    this.tunnels.clear();
  }

  // Returns the path of the next request.
  get path() {
    const now = this.#last?.now;
    const isRecent = this.#refreshed !== null && now - this.#refreshed < REFRESH_SECONDS && performance.now() - this.#last.at < GAP_SECONDS * 1e3;
    return isRecent ? "status.json" : this.#fullPath();
  }

  #fullPath() {
    return `status.json?history=${this.span.name}`;
  }

  // Adds the answer of the daemon to a request for `path`.
  add(snapshot, path) {
    const { started_unix_seconds: started, uptime_seconds: uptime, unix_seconds: now } = snapshot;
    // Readers within a second get the same document.
    if (this.#last?.started === started && this.#last.uptime === uptime) return;
    // A daemon that was started again counts from 0.
    const last = this.#last?.started === started && this.#last.uptime < uptime ? this.#last : null;
    const seconds = last && uptime - last.uptime;
    // The times of the curves are by the clock of the host. If that was set, the daemon has them by the new clock.
    if (last && Math.abs(now - last.now - seconds) > GAP_SECONDS) this.#refreshed = null;
    const next = {
      started,
      uptime,
      now,
      at: performance.now(),
      total: snapshot.counters,
      tunnels: new Map(snapshot.tunnels.map((tunnel) => [tunnel.name, tunnel.counters])),
      flows: new Map(snapshot.flows.map((flow) => [flow.flow, { bytes_up: flow.up_bytes, bytes_down: flow.down_bytes }])),
    };
    this.total = last && rates(last.total, next.total, seconds);
    this.flows = last ? flowRates(last, next, snapshot.flows, seconds) : new Map();
    // The operator may have chosen another time meanwhile.
    const isFull = path === this.#fullPath();
    for (const tunnel of snapshot.tunnels) {
      const before = last?.tunnels.get(tunnel.name);
      if (tunnel.curve && isFull) this.tunnels.set(tunnel.name, fromCurve(tunnel.curve, now));
      else if (before && this.#refreshed !== null) this.#addSample(tunnel, { time: now, seconds, ...since(before, tunnel.counters, seconds) });
    }
    if (isFull && snapshot.tunnels.some((tunnel) => tunnel.curve)) this.#refreshed = now;
    this.#forget(now, next.tunnels);
    this.#last = next;
  }

  #addSample(tunnel, sample) {
    if (!this.tunnels.has(tunnel.name)) this.tunnels.set(tunnel.name, { samples: [], incidents: [] });
    const { samples, incidents } = this.tunnels.get(tunnel.name);
    // A sample of a minute comes with the daemon's history.
    if (this.span === SPANS[0]) samples.push(sample);
    const newest = tunnel.last_incident;
    if (!newest) return;
    // The same incident, as it was. Its time differs by a little in each answer.
    if (incidents.at(-1)?.from_unix_seconds > newest.from_unix_seconds - 1) incidents.pop();
    incidents.push(newest);
  }

  #forget(now, kept) {
    const begin = now - this.span.seconds;
    for (const [name, curve] of this.tunnels) {
      curve.samples = curve.samples.filter((sample) => sample.time >= begin);
      curve.incidents = curve.incidents.filter((incident) => incident.until_unix_seconds >= begin);
      if (!kept.has(name)) this.tunnels.delete(name);
    }
  }
}

// Returns the samples of a tunnel's curve in /status.json, without those that nobody has seen.
function fromCurve(curve, now) {
  const sample = (up, index) => {
    const end = Math.min(now, curve.from_unix_seconds + (index + 1) * curve.interval_seconds);
    return {
      time: end,
      seconds: end - curve.from_unix_seconds - index * curve.interval_seconds,
      up,
      down: curve.down_bits_per_second[index],
      flows: curve.flows[index],
      failed: curve.failed_dials[index],
      rtt: curve.wan_rtt_ms[index],
      whole: curve.verify_whole[index],
      broken: curve.verify_broken[index],
      cap: curve.cap_bits_per_second[index],
    };
  };
  return { samples: curve.up_bits_per_second.map(sample).filter((sample) => sample.up !== null), incidents: curve.incidents };
}

// Returns the figures between two counts of a tunnel.
function since(before, after, seconds) {
  return { ...rates(before, after, seconds), flows: after.flows_now, failed: Math.max(0, after.dials_failed - before.dials_failed) };
}

// Returns the rates of the flows in bits per second. A flow that has begun since the last answer has its rate since its begin.
function flowRates(last, next, flows, seconds) {
  const found = new Map();
  for (const flow of flows) {
    const before = last.flows.get(flow.flow);
    const since = before ? seconds : Math.min(seconds, flow.age_seconds);
    if (since > 0) found.set(flow.flow, rates(before ?? { bytes_up: 0, bytes_down: 0 }, next.flows.get(flow.flow), since));
  }
  return found;
}

// Returns the rates between two counts of bytes, in bits per second.
function rates(before, after, seconds) {
  const rate = (key) => Math.max(0, after[key] - before[key]) * 8 / seconds;
  return { up: rate("bytes_up"), down: rate("bytes_down") };
}
