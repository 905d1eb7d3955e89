// Measures the live page, as `tests/page/run bench [PART…]`: its weight, its first paint, the time until a change is on
// the page (delay), the slowdown of the local cloud while a page is open (messages, runs), and the smoothness of a long
// list when it scrolls (scroll). Without a part, it measures all of them.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, get, request } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { browser as launch, local } from './cloud.mjs';

const CHOSEN = process.argv.slice(2);

// The number of events in the list, which is the most that the page keeps.
const EVENTS = 100_000;

// Each event whose delay is measured is accepted, runs, fails, waits, is retried, runs and ends. These are at least
// five changes that the page shows.
const CHANGES = 5;
const CHANGES_A_SECOND = 500;
const CHANGED_EVENTS = 1000;

const PAINTS = 9;
const ROUNDS = 3;

// The number of events that run in a round, and the number of senders.
const RUNS = 1000;
const SENDERS = 20;

// The number of events that are sent before all of them must have run: the journal keeps only the latest entries.
const TOGETHER = 500;
const ASKED_EVERY = 50;

// The program that scripts/bench-local runs.
const THROUGHPUT = join(dirname(process.env.COMEBACK), 'examples', 'throughput');

const FUNCTION = '/2015-03-31/functions/example-target/invocations';
const agent = new Agent({ keepAlive: true, maxSockets: SENDERS });

function invoke(url, payload) {
  const headers = {
    authorization: 'AWS4-HMAC-SHA256 Credential=local',
    'x-amz-invocation-type': 'Event',
    'content-type': 'application/json',
  };
  return new Promise((resolve, reject) => {
    const call = request(url + FUNCTION, { method: 'POST', agent, headers }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve({ id: answer.headers['x-amzn-requestid'] }));
    });
    call.on('error', reject);
    call.end(payload);
  });
}

// Reads the journal of the local cloud after this entry: the events, and the number of the last entry.
const journal = async (url, after, wait = 0) =>
  (await fetch(`${url}/_local/journal?after=${after}&wait=${wait}`)).json();

async function end(url, after = 0) {
  const { events, next } = await journal(url, after);
  return events.length === 0 ? next : end(url, next);
}

// The time when the first run of each event began. An event that finds no idle process waits before that.
async function starts(url, from) {
  const started = {};
  for (let after = from; ; ) {
    const { events, next } = await journal(url, after);
    if (events.length === 0) return started;
    for (const it of events) if (it.type === 'Started') started[it.request_id] ??= Date.parse(it.at);
    after = next;
  }
}

// Sends this many events that succeed at once, and waits until all have run.
async function run(url, events) {
  let after = await end(url);
  for (let done = 0; done < events; done += TOGETHER) {
    let left = TOGETHER;
    const senders = Array.from({ length: SENDERS }, async () => {
      for (let nth = 0; nth < TOGETHER / SENDERS; nth += 1) await invoke(url, '{"id":"quick"}');
    });
    while (left > 0) {
      const news = await journal(url, after, 10);
      left -= news.events.filter((it) => it.type === 'Finished' && it.function === 'example-target').length;
      after = news.next;
      // Reading each entry as it comes would slow down what is measured.
      await setTimeout(ASKED_EVERY);
    }
    await Promise.all(senders);
  }
}

// Runs the measurement of scripts/bench-local on this local cloud.
const carry = (url) =>
  new Promise((resolve, reject) => {
    const child = spawn(THROUGHPUT, [url], { stdio: ['ignore', 'ignore', 'inherit'] });
    child.once('error', reject);
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`throughput ended with ${code}`))));
  });

// The CPU time of a process in milliseconds.
function used(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

const sorted = (numbers) => [...numbers].sort((a, b) => a - b);
const quantile = (numbers, share) => sorted(numbers)[Math.min(numbers.length - 1, Math.floor(numbers.length * share))];

// Observers that are connected during a measurement. Each returns a function that ends it.
const WATCHERS = {
  nobody: async () => async () => {},
  // The stream of the overview, which nothing renders.
  'a stream': async (url) => {
    const call = get(`${url}/stream?path=/`, (answer) => answer.resume());
    await new Promise((resolve) => call.once('response', resolve));
    return async () => call.destroy();
  },
  'a page in Chromium': async (url, context) => {
    const page = await context.newPage();
    await page.goto(`${url}/`);
    return () => page.close();
  },
};

// Measures the same work with each observer in turn, and compares the results with those without an observer.
async function compare(what, cloud, page, work) {
  await page.goto('about:blank');
  await work(cloud.url);
  const all = Object.keys(WATCHERS).map((name) => ({ name, wall: [], cpu: [] }));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { name, wall, cpu } of all) {
      const leave = await WATCHERS[name](cloud.url, page.context());
      const [began, before] = [Date.now(), used(cloud.pid)];
      await work(cloud.url);
      wall.push(Date.now() - began);
      cpu.push(used(cloud.pid) - before);
      await leave();
    }
  }
  const [alone, ...watched] = all;
  console.log(`${what}: ${quantile(alone.wall, 0.5)} ms, ${quantile(alone.cpu, 0.5)} ms of a processor`);
  for (const { name, wall, cpu } of watched) {
    const ratios = (mine, others) => mine.map((it, nth) => it / others[nth]);
    const told = (numbers) => [0.5, 0, 1].map((share) => `${(100 * quantile(numbers, share)).toFixed(0)} %`).join(', ');
    console.log(`  with ${name}: throughput ${told(ratios(alone.wall, wall))} (median, least, most)`);
    console.log(`  with ${name}: processor ${told(ratios(cpu, alone.cpu))} (median, least, most)`);
  }
}

async function weight({ url }) {
  let bytes = 0;
  for (const path of ['/', '/page.css', '/page.js', '/icon.svg'])
    bytes += (await (await fetch(url + path)).arrayBuffer()).byteLength;
  console.log(`weight of the first page: ${(bytes / 1024).toFixed(1)} KB`);
}

async function paint({ url }, page) {
  const paints = [];
  for (let nth = 0; nth < PAINTS; nth += 1) {
    await page.goto(`${url}/`);
    paints.push(
      await page.evaluate(
        () =>
          new Promise((resolve) => {
            new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime)).observe({
              type: 'paint',
              buffered: true,
            });
          }),
      ),
    );
  }
  const [median, most] = [quantile(paints, 0.5), Math.max(...paints)].map((it) => it.toFixed(0));
  console.log(`first paint: ${median} ms at the median of ${PAINTS}, ${most} ms at most`);
}

async function delay({ url }, page) {
  const from = await end(url);
  await page.goto(`${url}/events`);
  await page.evaluate(() => {
    window.seen = {};
    new MutationObserver(() => {
      for (const row of document.querySelectorAll('tr[id^=event-]')) window.seen[row.id.slice(6)] ??= Date.now();
    }).observe(document.body, { childList: true, subtree: true });
  });
  const sent = [];
  const began = Date.now();
  const pause = (1000 * CHANGES) / CHANGES_A_SECOND;
  const payload = JSON.stringify({ id: 'bench', fail: { attempts: 1, error: 'app.Down', message: '503' } });
  for (let nth = 0; nth < CHANGED_EVENTS; nth += 1) {
    const due = began + nth * pause;
    if (due > Date.now()) await setTimeout(due - Date.now());
    sent.push(invoke(url, payload));
  }
  const accepted = await Promise.all(sent);
  const rate = (accepted.length * CHANGES) / ((Date.now() - began) / 1000);
  await setTimeout(1000);
  const seen = await page.evaluate(() => window.seen);
  const started = await starts(url, from);
  const both = accepted.filter(({ id }) => seen[id] && started[id]);
  const late = both.map(({ id }) => seen[id] - started[id]);
  console.log(
    `from the start of a run to the list: ${quantile(late, 0.5)} ms at the median, ${quantile(late, 0.95)} ms at p95, of ${late.length} of ${accepted.length} events, ${rate.toFixed(0)} changes a second`,
  );
}

async function scroll({ url }, page) {
  const known = async () =>
    Number((await (await fetch(`${url}/events`)).text()).match(/ of ([\d,]+) event/)?.[1].replace(/,/g, '') ?? 0);
  const began = Date.now();
  for (let left = EVENTS - (await known()); left > 0; left = EVENTS - (await known())) await run(url, left);
  console.log(`filled the list within ${((Date.now() - began) / 1000).toFixed(0)} s`);
  for (const path of [
    '/events',
    '/events?text=nothing+has+this',
    '/events?group=error',
    // Near the oldest of the events that are kept.
    `/events?from=${EVENTS / 10}`,
  ]) {
    const began = Date.now();
    await (await fetch(url + path)).text();
    const made = Date.now() - began;
    await page.goto(url + path);
    // More events keep coming while the list is scrolled.
    const busy = run(url, RUNS);
    const frames = await page.evaluate(async () => {
      const lengths = [];
      let last = performance.now();
      for (let step = 0; step < 120; step += 1) {
        await new Promise(requestAnimationFrame);
        lengths.push(performance.now() - last);
        last = performance.now();
        scrollBy(0, 40);
        if (step % 30 === 29) scrollTo(0, 0);
      }
      return lengths;
    });
    await busy;
    const [p95, most] = [quantile(frames, 0.95), Math.max(...frames)].map((it) => it.toFixed(0));
    console.log(
      `scrolling ${path}, of ${await known()} events: made in ${made} ms; frames of ${p95} ms at p95, ${most} ms at most`,
    );
  }
}

const PARTS = {
  weight,
  paint,
  delay,
  messages: (cloud, page) => compare('280,000 messages through a queue', cloud, page, carry),
  runs: (cloud, page) => compare(`${RUNS} runs of a function`, cloud, page, (url) => run(url, RUNS)),
  scroll,
};

const cloud = await local(0, ['BASE_BACKOFF=1s', 'MAX_BACKOFF=1s', 'JITTER=none']);
const browser = await launch();
try {
  const page = await (await browser.newContext()).newPage();
  for (const part of CHOSEN.length > 0 ? CHOSEN : Object.keys(PARTS)) await PARTS[part](cloud, page);
} finally {
  await browser.close();
  await cloud.end();
}
