// What the page remembers of earlier answers: the bytes of the last one, and the throughput of ten minutes.

// Time that the charts show, in seconds.
export const SPAN_SECONDS = 600;

// The throughput of each tunnel, and the rate of each flow.
export class History {
  // Name of a tunnel to its samples, the oldest first. A sample has the rates from the sample before it until its time.
  tunnels = new Map();
  // Number of a flow to its rates.
  flows = new Map();
  // Rates of the process.
  total = null;
  #last = null;

  // Adds an answer of the daemon.
  add(snapshot) {
    const now = snapshot.started_unix_seconds + snapshot.uptime_seconds;
    // A daemon that was started again counts from 0.
    const last = this.#last?.started === snapshot.started_unix_seconds && this.#last.now < now ? this.#last : null;
    const next = {
      started: snapshot.started_unix_seconds,
      now,
      total: snapshot.counters,
      tunnels: new Map(snapshot.tunnels.map((tunnel) => [tunnel.name, tunnel.counters])),
      flows: new Map(snapshot.flows.map((flow) => [flow.flow, { bytes_up: flow.up_bytes, bytes_down: flow.down_bytes }])),
    };
    const seconds = last && now - last.now;
    this.total = last && rates(last.total, next.total, seconds);
    this.flows = last ? flowRates(last, next, snapshot.flows, seconds) : new Map();
    for (const [name, counters] of next.tunnels) {
      const before = last?.tunnels.get(name);
      if (before) this.#addSample(name, { time: now, seconds, ...rates(before, counters, seconds) });
    }
    this.#forget(now, next.tunnels);
    this.#last = next;
  }

  #addSample(name, sample) {
    if (!this.tunnels.has(name)) this.tunnels.set(name, []);
    this.tunnels.get(name).push(sample);
  }

  #forget(now, kept) {
    for (const [name, samples] of this.tunnels) {
      const first = samples.findIndex((sample) => sample.time >= now - SPAN_SECONDS);
      if (first !== 0) samples.splice(0, first < 0 ? samples.length : first);
      if (samples.length === 0 && !kept.has(name)) this.tunnels.delete(name);
    }
  }
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
