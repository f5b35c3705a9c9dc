// BullMQ: one-shots are delayed jobs. `create <name> <count> <due_ms> <rate>` (see load.py), or `run <slots>`.
// Defaults throughout: a lock of 30 s on a running job, a look for stalled ones every 30 s.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";

const WORK_MS = 50; // as effects.py
const PER_CALL = 100;
const QUEUE = "timers";
const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT) };

async function create(name, count, dueMs, rate) {
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  const began = performance.now();
  for (let first = 0; first < count; first += PER_CALL) {
    const jobs = [];
    for (let i = first; i < Math.min(first + PER_CALL, count); i++) {
      const due = dueMs + Math.floor(i / (rate || count)) * 1000;
      jobs.push({ name: "effect", data: { timer: `${name}-${i}`, due }, opts: { delay: due - Date.now() } });
    }
    await queue.addBulk(jobs);
  }
  console.log((performance.now() - began) / 1000);
  await queue.close();
}

async function effect(job) {
  await sleep(WORK_MS);
  appendFileSync(process.env.EFFECTS, `${job.data.timer} ${job.data.due} ${Date.now()}\n`);
}

const [verb, ...rest] = process.argv.slice(2);
if (verb === "run") {
  new Worker(QUEUE, effect, { connection, concurrency: Number(rest[0]) });
} else {
  await create(rest[0], ...rest.slice(1).map(Number));
}
