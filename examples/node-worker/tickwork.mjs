// A tickwork worker in plain Node (18 or later), with no dependencies: it leases runs over HTTP, so it needs no AWS
// credentials either. The wire protocol it speaks is docs/worker-protocol.md; `worker.mjs` beside it shows its use.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const LEASE_S = 60;
const WAIT_S = 10;
const PAUSE_MS = 2_000;
const BEAT_MS_MIN = 500; // near the end of max_duration_s less and less is left, and no heartbeat lengthens it
const GRACE_MS = 20_000;

/** Throw it from a job when no retry can help: the run is dead-lettered at once. */
export class FailPermanently extends Error {}

/** The reason of `ctx.signal` when the attempt must stop: another worker may have the run. */
export class LeaseLost extends Error {}

/** The reason of `ctx.signal` when somebody cancelled the run. */
export class RunCancelled extends Error {}

/** The reason of `ctx.signal` when the worker has to stop: the run is handed back, and another worker begins it anew. */
export class Interrupted extends Error {}

const SAYS_TOO_MUCH = new Set([400, 413, 422]); // refusals of what is said, and not of who says it

const UNDECIDED = new Set(["busy", "contended", "unreadable"]); // reasons that say nothing of the run: ask again

class Refused extends Error {
  constructor(status, text) {
    super(`${status}: ${text}`);
    this.status = status;
  }
}

export class Worker {
  /** `jobs`: handler name -> async (ctx, payload). A job must pass `ctx.signal` on to what it awaits. */
  constructor({ api, pool, jobs, concurrency = 8, leaseS = LEASE_S, graceMs = GRACE_MS, log = console.error, headers = {} }) {
    Object.assign(this, { api, pool, jobs, concurrency, leaseS, graceMs, log, headers });
    this.name = `${hostname().slice(0, 40)}-${process.pid}`;
    this.running = new Set();
    this.stopping = new AbortController();
    this.graceIsOver = new AbortController();
  }

  /** Take nothing more; `run` returns when what runs has ended, or has been handed back at the end of its grace. */
  stop() {
    if (this.stopping.signal.aborted) return;
    this.stopping.abort();
    setTimeout(() => this.graceIsOver.abort(), this.graceMs).unref();
  }

  async run() {
    while (!this.stopping.signal.aborted) {
      const free = Math.min(10, this.concurrency - this.running.size);
      if (free <= 0) {
        await Promise.race([...this.running]); // never lease what cannot run
        continue;
      }
      for (const run of await this.#lease(free)) {
        const attempt = this.#attempt(run).finally(() => this.running.delete(attempt));
        this.running.add(attempt);
      }
    }
    await Promise.all([...this.running]);
  }

  async #lease(max) {
    try {
      const body = { worker: this.name, max, lease_s: this.leaseS, wait_s: WAIT_S, handlers: Object.keys(this.jobs) };
      const askedAt = performance.now();
      // Not aborted by `stop`: runs in an answer nobody reads would wait for their lease to lapse.
      const path = `/pools/${encodeURIComponent(this.pool)}:lease`;
      const answer = await this.#post(path, body, (WAIT_S + 10) * 1000);
      if (answer.retry_after_s) await this.#pause(answer.retry_after_s * 1000);
      // The platform says how long it kept the question waiting: its answer, and what it says of leases, is no older.
      const answeredAt = answer.waited_ms === undefined ? performance.now() : askedAt + answer.waited_ms;
      return answer.runs.map((run) => ({ ...run, lease: this.#leaseOf(run, answeredAt) }));
    } catch (error) {
      this.log(`lease failed: ${error.message}`);
      await this.#pause(PAUSE_MS);
      return [];
    }
  }

  async #pause(ms) {
    await sleep(ms, undefined, { signal: this.stopping.signal }).catch(() => {});
  }

  /** A lease as the answer grants it, by our own clock and from before it was asked for. An older platform does not
   *  say how long it lasts: then as long as was asked for. */
  #leaseOf(answer, askedAt) {
    const ms = answer.lease_ms ?? this.leaseS * 1000;
    return { ms, endsAt: askedAt + ms };
  }

  async #attempt(run) {
    const stop = new AbortController();
    const beating = new AbortController();
    const beats = this.#beat(run, stop, beating.signal);
    this.graceIsOver.signal.addEventListener("abort", () => stop.abort(new Interrupted(run.run_id)), { signal: beating.signal });
    let outcome = "succeeded";
    let error = "";
    let errorClass; // left out of the JSON while undefined, like the receipt where there is none
    try {
      const job = this.jobs[run.handler];
      if (!job) throw new Error(`no job ${run.handler} in this worker (it has ${Object.keys(this.jobs).join(", ")})`);
      await job(contextOf(run, stop.signal), run.payload);
    } catch (failure) {
      outcome = failure instanceof FailPermanently ? "failed_permanent" : "failed";
      errorClass = (failure?.constructor?.name ?? "Error").slice(0, 80);
      error = `${errorClass}: ${failure?.message ?? failure}`.slice(0, 1000);
    }
    if (stop.signal.reason instanceof RunCancelled && outcome !== "succeeded") outcome = "cancelled";
    if (stop.signal.reason instanceof Interrupted && outcome !== "succeeded") await this.#release(run);
    else await this.#complete(run, { outcome, error, errorClass }, stop.signal); // the lease is kept until the outcome is in
    beating.abort();
    await beats;
  }

  /** A heartbeat each third of the lease. Two failed ones, or one that is refused, or a lease that is over, and the
   *  job must stop. */
  async #beat(run, stop, done) {
    let failed = 0;
    let lease = run.lease;
    let end = this.#stopAt(lease, run, stop);
    while (!done.aborted && !(stop.signal.reason instanceof LeaseLost)) {
      await sleep(Math.max(BEAT_MS_MIN, lease.ms / 3), undefined, { signal: done }).catch(() => {});
      if (done.aborted) break;
      const askedAt = performance.now();
      let answer = { accepted: false, reason: "busy" };
      try {
        const body = { runs: [{ ref: run.ref, token: run.token, lease_s: this.leaseS, receipt: run.receipt }] };
        answer = (await this.#post("/runs:heartbeat", body, lease.ms / 6)).runs[0];
      } catch (error) {
        this.log(`heartbeat failed: ${error.message}`);
      }
      if (answer.cancel) stop.abort(new RunCancelled(run.run_id));
      failed = answer.accepted ? 0 : failed + 1;
      if (answer.accepted) {
        lease = this.#leaseOf(answer, askedAt);
        clearTimeout(end);
        end = this.#stopAt(lease, run, stop);
      }
      if (!answer.accepted && (!UNDECIDED.has(answer.reason) || failed >= 2)) stop.abort(new LeaseLost(run.run_id));
    }
    clearTimeout(end);
  }

  #stopAt(lease, run, stop) {
    return setTimeout(() => stop.abort(new LeaseLost(run.run_id)), Math.max(0, lease.endsAt - performance.now()));
  }

  /** Hand it back, and try for as long as a lease lasts. Where that does not succeed (a platform of an older version, or
   *  none) its lease lapses. */
  async #release(run) {
    const until = performance.now() + run.lease.ms;
    while (performance.now() < until) {
      try {
        const entry = { ref: run.ref, token: run.token, receipt: run.receipt };
        const answer = (await this.#post("/runs:release", { runs: [entry] }, 2_000)).runs[0];
        if (answer.accepted || !UNDECIDED.has(answer.reason)) return;
      } catch (failure) {
        this.log(`release failed: ${failure.message}`);
        if (failure instanceof Refused && failure.status !== 401 && failure.status !== 403) return;
      }
      await sleep(500);
    }
  }

  /** Until it is accepted or refused, or the lease is gone: then nothing may be completed. */
  async #complete(run, { outcome, error, errorClass }, signal) {
    while (!(signal.reason instanceof LeaseLost)) {
      try {
        const entry = { ref: run.ref, token: run.token, receipt: run.receipt, outcome, error, error_class: errorClass };
        const answer = (await this.#post("/runs:complete", { runs: [entry] }, 10_000)).runs[0];
        if (answer.accepted || !UNDECIDED.has(answer.reason)) return;
      } catch (failure) {
        this.log(`complete failed: ${failure.message}`);
        if (failure instanceof Refused && SAYS_TOO_MUCH.has(failure.status)) {
          if (outcome === "cancelled") outcome = "failed_permanent"; // a platform of an older version
          else if (error || errorClass) error = errorClass = undefined; // the bare outcome, for a failure has to be recorded
          else return;
        }
      }
      await sleep(500);
    }
  }

  async #post(path, body, timeoutMs) {
    const answer = await fetch(this.api + path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...this.headers },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(Math.max(500, timeoutMs)),
    });
    const text = await answer.text();
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) throw new Refused(answer.status, text);
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
    return JSON.parse(text);
  }
}

function contextOf(run, signal) {
  return {
    runId: run.run_id, // the same on every attempt: the idempotency key of every side effect
    jobId: run.job_id,
    scheduledAt: new Date(run.scheduled_at),
    fireAt: new Date(run.fire_at),
    attempt: run.attempt,
    token: run.token, // grows with every attempt
    traceparent: run.traceparent,
    signal,
  };
}
