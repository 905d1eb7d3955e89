// Clicks through the live page in Chromium, against the real programs.
//
// Run by tests/page/run, which sets COMEBACK, CHROMIUM and SHOTS.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser as launch, local, start } from './cloud.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const { SHOTS } = process.env;

// Longer than any step takes on a busy machine. A test that waits this long has failed.
const PATIENCE = 60_000;

// Waits are long enough for a test to act on an event, and short enough to wait for its retry. Events of the function
// `slow` wait longer than a test runs: they come back only on an operator's order.
const POLICIES = { slow: { BASE_BACKOFF: '10m', MAX_BACKOFF: '10m' } };
const SETTINGS = [
  'BASE_BACKOFF=3s',
  'MAX_BACKOFF=3s',
  'JITTER=none',
  'MAX_ATTEMPTS=20',
  `POLICIES=${JSON.stringify(POLICIES)}`,
];
const FUNCTIONS = [`slow=${join(dirname(process.env.COMEBACK), 'example-target')}`];

let cloud;
let browser;
let context;
let page;

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  [cloud, browser] = await Promise.all([local(0, SETTINGS, FUNCTIONS), launch()]);
  // Axe is injected into the page, which the page's content security policy forbids.
  context = await browser.newContext({ bypassCSP: true, viewport: { width: 1280, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('pageerror', (error) => assert.fail(error));
});

after(async () => {
  await browser?.close();
  await cloud?.end();
});

const go = (path) => page.goto(cloud.url + path);

// The row with this text.
const row = (text) => page.locator('tbody tr', { hasText: text });

// The form that sends events or plays an outage, once the page knows the function.
async function form(action, name = 'example-target') {
  await go('/play');
  const form = page.locator(`form[action="${action}"]`, { has: page.locator('select') });
  await form.getByLabel('Function').selectOption(name);
}

async function send(payload, events = 1, name = undefined) {
  await form('/play/send', name);
  await page.getByLabel('Payload, as JSON').fill(typeof payload === 'string' ? payload : JSON.stringify(payload));
  await page.getByLabel('How many').fill(String(events));
  await page.getByRole('button', { name: 'Send' }).click();
  await page.waitForURL(/\/(events)?$/);
}

async function outage(how, seconds) {
  await form('/play/outage');
  await page.getByLabel('It').selectOption(how);
  await page.getByLabel('For seconds').fill(String(seconds));
  await page.getByRole('button', { name: 'Begin' }).click();
  await page.getByText('example-target is down').waitFor();
}

async function endOutage() {
  await go('/play');
  await page.getByRole('button', { name: 'End it now' }).click();
  await page.getByText('example-target is down').waitFor({ state: 'detached' });
}

// The title of a confirmation is a question, and its button begins with the same words.
async function confirm(question) {
  await page.getByRole('heading', { name: `${question}?` }).waitFor();
  await page.getByRole('button', { name: question }).click();
  await page.locator('#job').getByRole('link', { name: 'Back' }).waitFor();
  return page.locator('#job').innerText();
}

async function accessible(what) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run());
  const said = violations.map((it) => `${what}: ${it.impact} ${it.id}: ${it.nodes.map((node) => node.html).join(' ')}`);
  assert.deepEqual(said, []);
  const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(width <= 0, `${what} is ${width} pixels wider than the window`);
}

test('before the first event the page says what to do, and finds nothing wrong', async () => {
  await go('/');
  await page.getByText('No event has failed yet').waitFor();
  await page.getByRole('link', { name: 'example-target', exact: true }).waitFor();
  await page.getByText('Nothing is wrong with the deployment').waitFor();
  await page.getByRole('link', { name: 'Send an event that fails' }).click();
  await page.getByRole('heading', { name: 'Play', exact: true }).waitFor();
});

test('an event is followed from its failure to its success, and tells its life', async () => {
  await send({ id: 'followed', fail: { attempts: 2, error: 'app.Down', message: '503' } });
  await row('app.Down').getByText('waiting').waitFor();
  await row('app.Down').getByText('attempt 1 in').waitFor();
  // The page is not reloaded.
  await row('app.Down').getByText('succeeded').waitFor();
  await row('app.Down').getByRole('link').click();
  const steps = page.locator('.timeline li');
  await steps.getByText('succeeded').waitFor();
  const words = (await steps.locator('strong').allInnerTexts()).join(' ');
  assert.equal(words, 'failed waits retried failed waits retried succeeded');
  assert.match(await steps.nth(1).innerText(), /The draw was 3 s, from 3 s to 3 s/);
  assert.match(await page.locator('#life pre').innerText(), /"attempt": 2/);
  assert.ok(!(await page.content()).includes('followed'), 'no payload before a click');
  await page.getByRole('link', { name: 'Show the payload of each run' }).click();
  assert.equal(await page.getByText('"followed"').count(), 3);
});

test('two pages at once show the same change', async () => {
  const other = await context.newPage();
  await other.goto(`${cloud.url}/events?error=app.Twice`);
  await send({ id: 'twice', fail: { attempts: 1, error: 'app.Twice' } });
  for (const it of [page, other]) await it.locator('tr', { hasText: 'app.Twice' }).getByText('succeeded').waitFor();
  await other.close();
});

test('what comes from outside is only text', async () => {
  const html = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\u0000\u001b[31m';
  await send({ id: html, fail: { error: 'PermanentFailure', message: html } });
  await row('PermanentFailure').getByText('dead letter: not_retryable').waitFor();
  await go('/dead');
  await row('<img src=x').first().getByRole('link').first().click();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  await page.locator('textarea').waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(JSON.parse(await page.locator('textarea').inputValue()).id, html);
});

test('a request that is no text is answered', async () => {
  for (const [path, expected] of [
    ['/events?text=%ff', 200],
    ['/events/%ff', 200],
    ['/events/%ff/payload', 400],
    ['/events?skip=18446744073709551615', 200],
    ['/jobs/99999999999999999999', 404],
  ]) {
    const { status } = await fetch(cloud.url + path);
    assert.equal(status, expected, path);
  }
});

test('a dead letter is edited and redriven', async () => {
  await page.locator('textarea').fill('{"id": "mended", "fail": {"attempts": 1, "error": "app.Mended"}}');
  await page.getByRole('button', { name: 'Redrive with this payload' }).click();
  await page.getByText('The function is given the payload that you edited.').waitFor();
  assert.match(await confirm('Redrive dead letters'), /1 letter redriven to example-target/);
  await go('/events?error=app.Mended');
  await row('app.Mended').getByText('succeeded').waitFor();
});

test('letters are redriven and deleted in bulk, after a plan', async () => {
  await send({ fail: { error: 'PermanentFailure', message: 'many' } }, 25);
  await page.getByRole('link', { name: /25 given up|26 given up/ }).waitFor();
  await go('/dead');
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByText('25 letters looked at').waitFor();
  await page.getByRole('link', { name: 'Back', exact: true }).click();
  await page.locator('.actions').getByRole('link', { name: 'Redrive…' }).first().click();
  await page.getByText('25 letters to redrive to example-target').waitFor();
  assert.match(await confirm('Redrive dead letters'), /25 letters redriven/);
  // The redriven events are given up again.
  await go('/');
  await page.getByRole('link', { name: /5[01] given up/ }).waitFor();
  await go('/dead?reason=not_retryable');
  await page.locator('.actions').getByRole('link', { name: 'Delete…' }).first().click();
  assert.match(await confirm('Delete dead letters'), /25 letters deleted/);
  await go('/dead');
  await page.getByText('The dead-letter queue is empty').waitFor();
});

test('a letter of a megabyte is shown in part, and one that is gone says so', async () => {
  await send({ id: 'x'.repeat(900_000), fail: { error: 'PermanentFailure', message: 'large' } });
  await row('large').getByText('dead letter').waitFor();
  await go('/dead');
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByRole('link', { name: 'Back', exact: true }).click();
  await row('large').first().getByRole('link').first().click();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  await page.getByText(/The first 65,536 of 900,\d+ bytes/).waitFor();
  const letter = page.url();
  await page.getByRole('link', { name: 'Delete…' }).click();
  await confirm('Delete dead letters');
  await page.goto(letter);
  await page.getByText('it was redriven or deleted').waitFor();
});

// The handler writes the register soon after the page shows a wait.
async function registered(events) {
  const plan = page.getByText(`${events} of slow to retry now`);
  do {
    await go('/confirm?do=retry&function=slow');
  } while ((await plan.count()) === 0);
}

test('waiting events are retried now, cancelled, paused and resumed', { timeout: PATIENCE }, async () => {
  await send({ id: 'ordered', fail: { attempts: 1, error: 'app.Slow' } }, 6, 'slow');
  await page.getByText('6 waiting').waitFor();
  await registered('6 events');
  await go('/');
  await page.getByRole('link', { name: 'Pause slow' }).click();
  assert.match(await confirm('Pause slow'), /slow is paused/);
  await go('/');
  await page.getByText(/paused for/).waitFor();

  // An operator's order overrides the pause.
  await go('/events?function=slow&state=waiting');
  await page.locator('table.events tbody a').first().click();
  await page.getByRole('link', { name: 'Retry now…' }).click();
  assert.match(await confirm('Retry events now'), /1 event of slow comes back now/);
  await go('/events?function=slow&state=succeeded');
  await page.getByText('1 event of').waitFor();

  await go('/events?function=slow&state=waiting');
  await page.locator('table.events tbody a').first().click();
  const event = page.url();
  await page.getByRole('link', { name: 'Cancel…' }).click();
  assert.match(await confirm('Cancel events'), /1 event of slow is given up/);
  await page.goto(event);
  await page.getByText('dead letter: cancelled').waitFor();

  await go('/events?function=slow&state=waiting');
  await page.getByRole('link', { name: 'Retry now…' }).click();
  await page.getByText('4 events of slow to retry now').waitFor();
  assert.match(await confirm('Retry events now'), /4 events of slow come back now/);
  await go('/events?function=slow&state=succeeded');
  await page.getByText('5 events of').waitFor();

  await go('/');
  await page.getByRole('link', { name: 'Resume slow' }).click();
  assert.match(await confirm('Resume slow'), /slow is resumed/);

  // An order for an event that has ended.
  const id = event.split('/').pop();
  await go(`/confirm?do=retry&id=${id}`);
  await page.getByText('nothing to do').waitFor();
});

test('an outage is played: throttled, timed out, and over', async () => {
  await outage('timeout', 300);
  await page.getByText('it times out').waitFor();
  await endOutage();
  await outage('throttle', 300);
  await send({ id: 'throttled' });
  await endOutage();
  await go('/events');
  await page.locator('table.events tbody tr').first().getByText('succeeded').waitFor();
});

test('an outage of an unknown kind is refused', async () => {
  await form('/play/outage');
  await page.getByLabel('It').evaluate((it) => {
    it.options[0].value = 'flood';
    it.selectedIndex = 0;
  });
  await page.getByRole('button', { name: 'Begin' }).click();
  await page.getByText("expected error, timeout, throttle or end for `how`, got 'flood'").waitFor();
});

test('events are filtered and grouped', async () => {
  await go('/events');
  await page.keyboard.press('/');
  await page.keyboard.type('app.Down');
  await page.keyboard.press('Enter');
  await page.getByText(/^1 event of/).waitFor();
  await go('/events?group=error');
  await row('app.Twice').getByRole('link').click();
  await page.getByText(/^1 event of/).waitFor();
  await go('/events?state=given+up&text=%3Cnothing%3E');
  await page.getByText('No event meets the filter').waitFor();
});

test('the sliders of the policy move its tables, by the keyboard', async () => {
  await go('/policy');
  const tables = page.locator('#forecast');
  const before = await tables.innerText();
  await page.getByLabel(/The function is down for/).focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText('An outage of 2 h').waitFor();
  assert.notEqual(await tables.innerText(), before);
  assert.match(page.url(), /outage=5/);
  const loaded = await page.locator('img.chart').evaluate((image) => image.decode().then(() => image.naturalWidth));
  assert.equal(loaded, 960);
});

test('every page can be used by everybody, light and dark, narrow and wide', async () => {
  await send({ fail: { error: 'PermanentFailure', message: 'card declined' } }, 2);
  await row('card declined').first().getByText('dead letter').waitFor();
  await outage('error', 600);
  await send({ id: 'seen' }, 5);
  await go('/events?state=waiting');
  const event = new URL(
    await page
      .locator('table.events tbody a')
      .first()
      .evaluate((it) => it.href),
  ).pathname;
  await go('/dead');
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByRole('link', { name: 'Back', exact: true }).click();
  const letter = new URL(
    await row('card declined')
      .first()
      .getByRole('link')
      .first()
      .evaluate((it) => it.href),
  ).pathname;
  const pages = {
    overview: '/',
    events: '/events',
    groups: '/events?group=error',
    event,
    dead: '/dead',
    letter: `${letter}?payload=show`,
    policy: '/policy',
    play: '/play',
    confirm: '/confirm?do=purge&reason=not_retryable',
  };
  for (const [name, path] of Object.entries(pages)) {
    await go(path);
    for (const [colorScheme, width] of [
      ['light', 1280],
      ['dark', 1280],
      ['dark', 360],
      ['light', 3840],
    ]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      await accessible(`${name}, ${colorScheme}, ${width}`);
      await page.screenshot({ path: `${SHOTS}/${name}-${colorScheme}-${width}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize({ width: 1280, height: 900 });
  await endOutage();
});

test('the lesson shows an outage by itself', async () => {
  await go('/play');
  await page.getByRole('button', { name: 'Start the lesson' }).click();
  for (const part of ['1 of 4', '2 of 4', '3 of 4', '4 of 4: All events have come back']) {
    await page.getByText(part).waitFor({ timeout: 90_000 });
  }
});

test('strangers are refused', async () => {
  const form = (headers, body) =>
    fetch(`${cloud.url}/play/lesson`, { method: 'POST', headers, body, redirect: 'manual' });
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  const own = { ...type, origin: cloud.url };
  await go('/play');
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  for (const [headers, body, expected] of [
    [{ ...type, origin: 'http://evil.example' }, `csrf=${csrf}`, 403],
    [type, `csrf=${csrf}`, 403],
    [own, 'csrf=guessed', 403],
    [own, '', 403],
    [own, `csrf=${csrf}&x=${'a'.repeat(5_000_000)}`, 413],
    [own, `csrf=${csrf}`, 303],
  ]) {
    const { status } = await form(headers, body);
    assert.equal(status, expected, JSON.stringify([headers, body.slice(0, 60)]));
  }
  const { headers } = await fetch(cloud.url);
  assert.match(headers.get('content-security-policy'), /default-src 'none'/);
});

test('an account has a page of its own, which needs the token', async () => {
  const web = await start(['web', '--port', '0', `--local=${cloud.url}`], 'Ctrl-C');
  try {
    const { origin } = new URL(web.url);
    assert.equal((await fetch(origin)).status, 403);
    assert.equal((await fetch(`${origin}/?token=guessed`)).status, 403);
    const account = await context.newPage();
    await account.goto(web.url);
    assert.equal(account.url(), `${origin}/`);
    await account.getByRole('link', { name: 'example-target', exact: true }).waitFor();
    // The state is from the handler's log, which has no error message and does not know of a success.
    await account.goto(`${origin}/events?error=app.Down`);
    await account.getByText('runs, or has succeeded').waitFor();
    assert.equal(await account.getByRole('link', { name: 'Play' }).count(), 0);
    await account.close();
  } finally {
    await web.end();
  }
});

test('the page says that the connection is lost, and goes on when it is back', async () => {
  await go('/');
  const { port } = new URL(cloud.url);
  await cloud.end('SIGKILL');
  await page.getByText('The connection is lost').waitFor();
  cloud = await local(port, SETTINGS, FUNCTIONS);
  await page.getByText('The connection is lost').waitFor({ state: 'hidden' });
  await page.getByText('No event has failed yet').waitFor();
});
