// Takes the pictures of the live page in docs/pictures, as `tests/page/run pictures`. This takes ten minutes, because the
// waits of an event are to be seen as they grow.

import { setTimeout } from 'node:timers/promises';
import { dirname, join } from 'node:path';
import { browser as launch, local } from './cloud.mjs';

const PICTURES = new URL('../../docs/pictures/', import.meta.url).pathname;
const EXAMPLE = join(dirname(process.env.COMEBACK), 'example-target');

// How long events are sent before the pictures, and how far apart.
const MINUTES = 10;
const APART = 15_000;

// An upstream that is down all the time, one that is often busy, and cards that are declined. Without an envelope a
// function can't count its runs, so a busy one is busy until a time, after about this many backoffs.
const down = { error: 'app.CarrierDown', message: '503 from the carrier: try again later' };
const busy = (backoffs) => {
  const until = new Date(Date.now() + (2 ** backoffs - 1) * 1000).toISOString();
  return { until, error: 'smtp.Throttled', message: '421 too many connections' };
};
const declined = { error: 'PermanentFailure', message: 'card declined' };

const cloud = await local(
  0,
  ['TRANSPARENT=true', 'MAX_BACKOFF=15m'],
  ['ship', 'email', 'charge'].map((name) => `${name}=${EXAMPLE}`),
);
const browser = await launch();

const invoke = (name, payload) =>
  fetch(`${cloud.url}/2015-03-31/functions/${name}/invocations`, {
    method: 'POST',
    headers: { authorization: 'AWS4-HMAC-SHA256 Credential=local', 'x-amz-invocation-type': 'Event' },
    body: JSON.stringify(payload),
  });

for (let nth = 0; nth < (MINUTES * 60_000) / APART; nth++) {
  if (nth < 12) await invoke('ship', { id: `parcel-${nth}`, fail: down });
  await invoke('email', { id: `mail-${nth}`, fail: busy(nth % 5) });
  await invoke('charge', nth % 8 === 5 ? { id: `order-${nth}`, fail: declined } : { id: `order-${nth}` });
  await setTimeout(APART);
}

for (const colorScheme of ['light', 'dark']) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 800 } });
  const shoot = async (name, fullPage) => {
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: `${PICTURES}${name}-${colorScheme}.png`, fullPage });
  };
  await page.goto(cloud.url);
  await page.getByRole('link', { name: /parts checked/ }).waitFor();
  await page.locator('#latest tbody tr').nth(9).waitFor();
  await shoot('page', true);

  await page.goto(`${cloud.url}/events?function=ship&state=waiting`);
  await page.locator('table.events tbody a').last().click();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  const last = page.locator('.waterfall li').last();
  await last.hover();
  await last.locator('.tip').waitFor();
  await shoot('event', false);
  await page.close();
}
await browser.close();
await cloud.end();
