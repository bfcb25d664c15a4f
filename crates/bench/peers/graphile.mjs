// graphile-worker on PostgreSQL. It is imported from the folder that this file is run in.
//
//   graphile.mjs fill JOBS     puts them by its SQL function for many, 10000 a transaction; prints seconds
//   graphile.mjs put JOBS      puts them, one after the other; prints seconds
//   graphile.mjs work SECONDS AT_ONCE LOCAL_QUEUE
//       does jobs that do nothing until the time is over or there are none; prints how many, and seconds
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.cwd()}/`);
const { run, runMigrations } = require("graphile-worker");
const { Pool } = require("pg");

const connectionString = process.env.BENCH_POSTGRES;
const [what, number, atOnce, localQueue] = process.argv.slice(2);
const silent = () => () => {};
const { Logger } = require("graphile-worker");
const logger = new Logger(silent);

async function put(jobs, each) {
  const pool = new Pool({ connectionString, max: 1 });
  await runMigrations({ pgPool: pool, logger });
  const begun = performance.now();
  for (let done = 0; done < jobs; done += each) {
    const count = Math.min(each, jobs - done);
    if (each === 1) {
      await pool.query("SELECT graphile_worker.add_job('nothing', json_build_object('id', $1::int))", [done]);
    } else {
      await pool.query(
        `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT json_populate_record(NULL::graphile_worker.job_spec,
          json_build_object('identifier', 'nothing', 'payload', json_build_object('id', i))) FROM generate_series(1, $1::int) i))`,
        [count],
      );
    }
  }
  console.log((performance.now() - begun) / 1000);
  await pool.query("ANALYZE");
  await pool.end();
}

async function work(seconds) {
  let done = 0;
  let last = performance.now();
  const worker = { connectionString, concurrentJobs: Number(atOnce), maxPoolSize: Number(atOnce) + 2, logger };
  if (Number(localQueue)) {
    Object.assign(worker, {
      localQueue: { size: Number(localQueue) },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    });
  }
  const begun = performance.now();
  const runner = await run({
    preset: { worker },
    noHandleSignals: true,
    taskList: {
      nothing: () => {
        done += 1;
        last = performance.now();
      },
    },
  });
  while (performance.now() - begun < seconds * 1000 && performance.now() - last < 1000) await sleep(20);
  const result = [done, (last - begun) / 1000];
  await runner.stop();
  console.log(result.join(" "));
}

if (what === "work") await work(Number(number));
else await put(Number(number), what === "fill" ? 10000 : 1);
process.exit(0);
