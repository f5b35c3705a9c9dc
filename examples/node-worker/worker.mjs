// node examples/node-worker/worker.mjs
//
// TICKWORK_API_URL (http://127.0.0.1:8787), TICKWORK_POOL (default)

import { setTimeout as sleep } from "node:timers/promises";
import { FailPermanently, Worker } from "./tickwork.mjs";

const jobs = {
  // What the demo of `make run` asks of its pool.
  "rate-feed": async (ctx) => console.log(`${ctx.runId} rates of ${ctx.scheduledAt.toISOString()}`),

  // What the conformance script asks: report `began`, work, report `ended`; report `stopped` when told to stop.
  conformance: async (ctx, { report, work_s = 0, then = "succeed" }) => {
    const tell = (event) =>
      fetch(report, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ event, run_id: ctx.runId, attempt: ctx.attempt, token: ctx.token }),
      });
    await tell("began");
    try {
      await sleep(work_s * 1000, undefined, { signal: ctx.signal });
    } catch (stopped) {
      await tell("stopped");
      throw stopped;
    }
    await tell("ended");
    if (then === "fail") throw new Error("told to fail");
    if (then === "fail_permanently") throw new FailPermanently("told to fail for good");
  },
};

const worker = new Worker({
  api: process.env.TICKWORK_API_URL ?? "http://127.0.0.1:8787",
  pool: process.env.TICKWORK_POOL ?? "default",
  leaseS: Number(process.env.TICKWORK_LEASE_S ?? 60),
  jobs,
});
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => worker.stop());
await worker.run();
process.exit(0); // connections kept alive would hold the process
