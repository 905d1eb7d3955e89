// Measures the live page, as `tests/page/run bench [EVENTS]`:
// its weight, its first paint, how long a change takes to be on the page, how smoothly a long list scrolls, and how much
// slower the local cloud is with a page open.

import { request } from 'node:http';
import { browser as launch, local } from './cloud.mjs';

const EVENTS = Number(process.argv[2] ?? 3000);
// Each event is accepted, runs, fails, waits, is retried, runs and ends: at least five changes that the page shows.
const CHANGES = 5;
const CHANGES_A_SECOND = 500;
const PAINTS = 9;

const FUNCTION = '/2015-03-31/functions/example-target/invocations';
const agent = new (await import('node:http')).Agent({ keepAlive: true, maxSockets: 20 });

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

// When the first run of each event began. An event that finds no free process waits before that.
async function starts(url) {
  const started = {};
  for (let after = 0; ; ) {
    const { events, next } = await (await fetch(`${url}/_local/journal?after=${after}`)).json();
    if (events.length === 0) return started;
    for (const it of events) if (it.type === 'Started') started[it.request_id] ??= Date.parse(it.at);
    after = next;
  }
}

const sorted = (numbers) => [...numbers].sort((a, b) => a - b);
const quantile = (numbers, share) => sorted(numbers)[Math.min(numbers.length - 1, Math.floor(numbers.length * share))];

const SETTINGS = ['BASE_BACKOFF=1s', 'MAX_BACKOFF=1s', 'JITTER=none'];
const payload = JSON.stringify({ id: 'bench', fail: { attempts: 1, error: 'app.Down', message: '503' } });

async function done(page, url, of) {
  await page.goto(`${url}/events?state=succeeded`);
  await page.waitForFunction(
    (count) => document.querySelector('#events p').innerText.startsWith(count),
    `${of.toLocaleString('en')} event`,
    { timeout: 0, polling: 50 },
  );
}

// How long it takes until all of so many events, sent as fast as they are accepted, have come back.
async function throughput(browser, url, events, isOpen) {
  const page = await browser.newPage();
  const watcher = isOpen ? await browser.newPage() : undefined;
  await watcher?.goto(`${url}/`);
  const before = await (await fetch(`${url}/events?state=succeeded`)).text();
  const known = Number(before.match(/<p>([\d,]+) event/)?.[1].replace(',', '') ?? 0);
  const began = Date.now();
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let nth = 0; nth < events / 20; nth += 1) await invoke(url, '{"id":"quick"}');
    }),
  );
  for (;;) {
    const text = await (await fetch(`${url}/events?state=succeeded`)).text();
    const now = Number(text.match(/<p>([\d,]+) event/)?.[1].replace(/,/g, '') ?? 0);
    if (now >= known + events) break;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  await page.close();
  await watcher?.close();
  return events / ((Date.now() - began) / 1000);
}

const cloud = await local(0, SETTINGS);
const browser = await launch();
try {
  let weight = 0;
  for (const path of ['/', '/page.css', '/page.js', '/icon.svg'])
    weight += (await (await fetch(cloud.url + path)).arrayBuffer()).byteLength;
  console.log(`weight of the first page: ${(weight / 1024).toFixed(1)} KB`);

  const page = await browser.newPage();
  const paints = [];
  for (let nth = 0; nth < PAINTS; nth += 1) {
    await page.goto(`${cloud.url}/`);
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
  console.log(
    `first paint: ${quantile(paints, 0.5).toFixed(0)} ms at the median of ${PAINTS}, ${Math.max(...paints).toFixed(0)} ms at most`,
  );

  await page.goto(`${cloud.url}/events`);
  await page.evaluate(() => {
    window.seen = {};
    new MutationObserver(() => {
      for (const row of document.querySelectorAll('tr[id^=event-]')) window.seen[row.id.slice(6)] ??= Date.now();
    }).observe(document.body, { childList: true, subtree: true });
  });
  const sent = [];
  const began = Date.now();
  const pause = (1000 * CHANGES) / CHANGES_A_SECOND;
  for (let nth = 0; nth < EVENTS / 2; nth += 1) {
    const due = began + nth * pause;
    if (due > Date.now()) await new Promise((resolve) => setTimeout(resolve, due - Date.now()));
    sent.push(invoke(cloud.url, payload));
  }
  const accepted = await Promise.all(sent);
  const seconds = (Date.now() - began) / 1000;
  await page.waitForTimeout(1000);
  const seen = await page.evaluate(() => window.seen);
  const started = await starts(cloud.url);
  const both = accepted.filter(({ id }) => seen[id] && started[id]);
  const late = both.map(({ id }) => seen[id] - started[id]);
  console.log(
    `from the start of a run to the page: ${quantile(late, 0.5)} ms at the median, ${quantile(late, 0.95)} ms at p95, of ${late.length} of ${accepted.length} events, ${((accepted.length * CHANGES) / seconds).toFixed(0)} changes a second`,
  );

  await done(page, cloud.url, accepted.length);
  const ratios = [];
  for (let round = 0; round < 3; round += 1) {
    const alone = await throughput(browser, cloud.url, EVENTS, false);
    const watched = await throughput(browser, cloud.url, EVENTS, true);
    ratios.push(watched / alone);
    console.log(`events a second: ${alone.toFixed(0)} without a page, ${watched.toFixed(0)} with one open`);
  }
  console.log(`with a page open: ${(100 * quantile(ratios, 0.5)).toFixed(0)} % at the median of 3`);

  await page.goto(`${cloud.url}/events`);
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
  const total = await page.locator('#events p').first().innerText();
  console.log(
    `scrolling the list (${total.split(' ')[0]} events, 50 on a page): the longest frame ${Math.max(...frames).toFixed(0)} ms`,
  );
} finally {
  await browser.close();
  await cloud.end();
}
