// Clicks through the live page in Chromium, against the real programs.
//
// Run by tests/page/run, which sets COMEBACK, CHROMIUM and SHOTS.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
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
const POLICIES = {
  slow: { BASE_BACKOFF: '10m', MAX_BACKOFF: '10m' },
  'a-tenants': { TENANT_ID: '/tenant/id' },
  // Even a page on a busy machine shows that the first event waits.
  '*': { ERRORS: { 'app.Limited*': { BACKOFFS: '4s,3h' }, 'app.Down': { BACKOFFS: '15s,3s' } } },
};
const SETTINGS = [
  'BASE_BACKOFF=3s',
  'MAX_BACKOFF=3s',
  'JITTER=none',
  'MAX_ATTEMPTS=20',
  `POLICIES=${JSON.stringify(POLICIES)}`,
];
const EXAMPLE = join(dirname(process.env.COMEBACK), 'example-target');
const FUNCTIONS = [`slow=${EXAMPLE}`, `importer=${EXAMPLE}`];
// A function with tenant isolation, which comes before all others in alphabetical order.
const TENANTS_FILE = `${SHOTS}/functions.json`;
const TENANTS = { 'a-tenants': { code: EXAMPLE, tenants: true } };
const QUEUES = ['imports=importer', 'mails'];

const deploy = (port) => local(port, SETTINGS, FUNCTIONS, QUEUES, ['--functions', TENANTS_FILE]);

let cloud;
let browser;
let context;
let page;

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  writeFileSync(TENANTS_FILE, JSON.stringify(TENANTS));
  [cloud, browser] = await Promise.all([deploy(0), launch()]);
  // Axe is injected into the page, which the page's content security policy forbids.
  context = await browser.newContext({ bypassCSP: true, viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(PATIENCE);
  page = await context.newPage();
  page.on('pageerror', (error) => assert.fail(error));
});

after(async () => {
  await browser?.close();
  await cloud?.end();
});

const go = (path) => page.goto(cloud.url + path);

// The row with this text.
const row = (text) => page.locator('tbody tr', { hasText: text });

// The forms for a function or a queue, once the page knows it.
async function play(name = 'example-target') {
  await go('/play');
  await page.getByLabel('Function or queue').selectOption(name);
  await page.locator(`form[action="/play/send"] input[name=function][value="${name}"]`).waitFor({ state: 'attached' });
}

async function send(payload, events = 1, name = undefined) {
  await play(name);
  await page.getByLabel('Payload, as JSON').fill(typeof payload === 'string' ? payload : JSON.stringify(payload));
  await page.getByLabel('How many').fill(String(events));
  await page.getByRole('button', { name: 'Send' }).click();
  await page.waitForURL(/\/(events)?$/);
}

async function outage(how, seconds) {
  await play();
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

// The title of the dialog is a question, and its button begins with the same words. What was done is a line on the page.
async function confirm(question, typed) {
  const dialog = page.getByRole('dialog', { name: `${question}?` });
  await dialog.waitFor();
  if (typed) await dialog.getByLabel(/^Type/).fill(typed);
  await dialog.getByRole('button', { name: question }).click();
  const done = page.locator('#did .notice', { hasText: question }).filter({ has: page.getByText('Dismiss') });
  await done.waitFor();
  const text = await done.innerText();
  await done.getByRole('button', { name: 'Dismiss' }).click();
  await done.waitFor({ state: 'detached' });
  return text;
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
  await page.getByRole('link', { name: /^\d+ parts checked$/ }).waitFor();
  // Nobody has received from the queue `mails` yet, which says nothing of a queue that was just made.
  assert.match(await page.locator('#health').innerText(), /^partly checked Nothing wrong was found/);
  await page.getByRole('button', { name: 'Start the one-minute lesson' }).waitFor();
  assert.match(await page.locator('#command').innerText(), /aws lambda invoke --endpoint-url http:/);
  await page.getByRole('link', { name: 'Send an event that fails' }).click();
  await page.getByRole('heading', { name: 'Play', exact: true }).waitFor();
});

test('an event is followed from its failure to its success, and tells its life', async () => {
  await send({ id: 'followed', fail: { attempts: 2, error: 'app.Down', message: '503' } });
  await row('app.Down').getByText('waiting').waitFor();
  await row('app.Down')
    .getByText(/attempt 1 (in|due)/)
    .waitFor();
  // The page is not reloaded.
  await row('app.Down').getByText('succeeded').waitFor();
  assert.equal(await row('app.Down').locator('.marks').innerText(), '✗×2 ✓');
  await row('app.Down').getByRole('link').click();
  await page.getByRole('heading', { name: 'example-target · succeeded in attempt 2' }).waitFor();
  // The page's script sets the title once the heading is there.
  await page.waitForFunction(() => document.title === 'example-target · succeeded in attempt 2 · Comeback');
  const rows = page.locator('.waterfall li:not(.axis)');
  assert.deepEqual(await rows.locator('.label').allInnerTexts(), ['first run', 'attempt 1', 'attempt 2']);
  assert.deepEqual(
    await rows.evaluateAll((all) =>
      all.map((it) => [...it.querySelectorAll('rect')].map((bar) => bar.className.baseVal)),
    ),
    [['passed', 'bad'], ['passed', 'bad'], ['good']],
  );
  // The error is shown on hover and on focus, and a click shows the run beside the waterfall.
  assert.equal(await rows.nth(0).locator('.tip').isVisible(), false);
  await rows.nth(0).getByRole('link').focus();
  await rows.nth(0).locator('q', { hasText: '503' }).waitFor();
  await rows.nth(0).getByText('The draw was 15 s, from 15 s to 15 s, by app.Down of *').waitFor();
  assert.ok(!(await page.content()).includes('followed'), 'no payload before a click');
  await rows.nth(1).getByRole('link').click();
  await page.getByRole('heading', { name: 'Attempt 1' }).waitFor();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  assert.match(await page.locator('#panel pre').innerText(), /"attempt": 1,[\s\S]*"followed"/);
});

test('an event that failed is queued until the handler decides, and its title counts down', async () => {
  await send({ id: 'counted', fail: { attempts: 1, error: 'app.Counted' } }, 1, 'slow');
  await row('app.Counted').getByText('waiting').waitFor();
  assert.equal(await page.getByText('unknown').locator('visible=true').count(), 0);
  await row('app.Counted').getByRole('link').click();
  await page.getByRole('heading', { name: /^slow · attempt 1 in 9 m \d+ s$/ }).waitFor();
  await page.waitForFunction(() => document.title.startsWith('slow'));
  const title = await page.title();
  await page.waitForFunction((before) => document.title !== before, title);
  assert.match(await page.title(), /^slow · attempt 1 in \d+ m/);
  const id = page.url().split('/').pop();
  await registered('1 event');
  await go(`/events/${id}`);
  await page.getByRole('link', { name: 'Retry now…' }).click();
  assert.match(await confirm(`Retry event ${id.slice(0, 8)}… now`), /1 event of slow comes back now/);
  await page.getByRole('heading', { name: 'slow · succeeded in attempt 1' }).waitFor();
});

test('an event of a function with tenants is sent with its tenant, and comes back', async () => {
  await play('a-tenants');
  const tenant = page.getByLabel('Tenant');
  const payload = page.getByLabel('Payload, as JSON');
  assert.equal(await tenant.inputValue(), 'tenant-1');
  assert.deepEqual(JSON.parse(await payload.inputValue()), { id: 'order-1', tenant: { id: 'tenant-1' } });
  await payload.fill('{"tenant": {"id": "other"}}');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('alert').getByText('so its retries would run as other').waitFor();
  const sent = '{"tenant": {"id": "other"}, "fail": {"attempts": 1, "error": "app.Owner"}}';
  await page.getByLabel('Tenant').fill('other');
  await page.getByLabel('Payload, as JSON').fill(sent);
  await page.getByRole('button', { name: 'Send' }).click();
  await row('app.Owner').getByText('succeeded').waitFor();
  // Each function has a form of its own, with what was sent to it last.
  await play();
  assert.equal(await page.getByLabel('Tenant').count(), 0);
  assert.notEqual(await page.getByLabel('Payload, as JSON').inputValue(), sent);
  await play('a-tenants');
  assert.equal(await page.getByLabel('Payload, as JSON').inputValue(), sent);
  assert.equal(await page.getByLabel('Tenant').inputValue(), 'other');
  assert.equal(await page.getByLabel('Function or queue').count(), 1);
});

test('a message shows its own payload, and one whose consumer is elsewhere says so', async () => {
  await send({ id: 'mine', fail: { attempts: 1 } }, 1, 'sqs:imports');
  await send({ id: 'other', fail: { attempts: 1 } }, 1, 'sqs:imports');
  await go('/events?function=sqs:imports');
  await page.getByText('1 to 2 of 2 events').waitFor();
  await row('sqs:imports').last().getByRole('link').click();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  assert.equal(JSON.parse(await page.locator('#panel pre').innerText()).id, 'mine');

  // A consumer of our own, which doesn't delete the message: SQS moves it to the retry queue.
  await send({ id: 'elsewhere' }, 1, 'sqs:mails');
  const sqs = async (action, body) => {
    const headers = {
      authorization: 'AWS4-HMAC-SHA256 Credential=local',
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `AmazonSQS.${action}`,
    };
    return (await fetch(cloud.url, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  };
  const { QueueUrl } = await sqs('GetQueueUrl', { QueueName: 'mails' });
  const receive = () => sqs('ReceiveMessage', { QueueUrl, WaitTimeSeconds: 20 });
  assert.equal((await receive()).Messages.length, 1);
  const moved = receive();
  await go('/events?function=sqs:mails');
  await row('sqs:mails').getByRole('link').click();
  await page.locator('#panel').getByText('The local cloud has not seen this run').waitFor();
  // It is sent back to its queue when it is due.
  const [{ ReceiptHandle }] = (await moved).Messages;
  await sqs('DeleteMessage', { QueueUrl, ReceiptHandle });
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
  await page.locator('pre', { hasText: 'PermanentFailure' }).waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(JSON.parse(await page.locator('textarea').inputValue()).id, html);
});

test('a request that is no text is answered', async () => {
  for (const [path, expected] of [
    ['/events?text=%ff', 200],
    ['/events/%ff', 404],
    ['/events/00000000-0000-0000-0000-000000000000', 404],
    ['/events?from=18446744073709551615', 200],
    ['/nothing', 404],
  ]) {
    const { status } = await fetch(cloud.url + path);
    assert.equal(status, expected, path);
  }
});

test('a dead letter is edited and redriven, after a look at what is changed', async () => {
  // What is no JSON stays in the form, with the error beside it.
  await page.getByText('Edit it').click();
  await page.locator('#payload').fill('{"id": mended}');
  await page.getByRole('button', { name: 'Redrive with this payload' }).click();
  await page
    .getByRole('alert')
    .getByText(/^the payload is not JSON: expected .*, at line 1, column 8$/)
    .waitFor();
  assert.equal(await page.locator('#payload').inputValue(), '{"id": mended}');
  await page.locator('#payload').fill('{"id": "mended", "fail": {"attempts": 1, "error": "app.Mended"}}');
  await page.getByRole('button', { name: 'Redrive with this payload' }).click();
  await page.locator('.difference ins', { hasText: '"id": "mended"' }).waitFor();
  await page.locator('.difference del', { hasText: '"error": "PermanentFailure"' }).waitFor();
  const [title] = await page.getByRole('dialog').getByRole('heading').allInnerTexts();
  assert.match(title, /^Redrive dead letter [0-9a-f]{8}…\?$/);
  await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).click();
  await page.locator('#did').getByText('1 letter redriven to example-target').waitFor();
  await go('/events?error=app.Mended');
  await row('app.Mended').getByText('succeeded').waitFor();
});

test('a direction override in a payload is shown as an escape', async () => {
  await send('{"id": "a\u202eb", "fail": {"error": "PermanentFailure", "message": "turned\u202e"}}');
  await row('turned').getByText('dead letter').waitFor();
  await row('turned').getByRole('link').click();
  await page.getByRole('link', { name: 'Show the payload' }).click();
  assert.match(await page.locator('#panel pre').innerText(), /"a\\u202eb"/);
  await page.getByRole('link', { name: 'See its dead letter' }).click();
  await row('turned').getByRole('link').first().click();
  await page.locator('pre', { hasText: '"a\\u202eb"' }).waitFor();
  assert.match(await page.locator('#payload').inputValue(), /"a\\u202eb"/);
  await page.getByRole('link', { name: 'See its life' }).click();
  await page.getByRole('heading', { name: /^example-target · given up/ }).waitFor();
  await page.goBack();
  assert.ok(!(await page.content()).includes('\u202e'));
  await page.getByRole('link', { name: 'Delete…' }).click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Delete dead letter/ })
    .click();
  await page.waitForURL(/\/dead$/);
});

test('dead letters are looked at on opening and after every action, and in bulk only after typing the number', async () => {
  await send({ fail: { error: 'PermanentFailure', message: 'many' } }, 25);
  await page.goto(`${cloud.url}/`);
  await page.getByRole('link', { name: '25 dead letters' }).waitFor();
  await go('/dead');
  await page.getByText(/25 letters, looked at \d+ s ago/).waitFor();
  // The filter takes patterns, as the program does.
  await go('/dead?error=Permanent*');
  assert.equal(await row('many').count(), 25);
  await page.locator('.actions').getByRole('link', { name: 'Redrive…' }).click();
  await page.getByText('25 letters to redrive to example-target').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Back', 'a second Enter must not act');
  assert.match(await confirm('Redrive 25 dead letters'), /25 letters redriven/);
  // The redriven events are given up again: the open page notices.
  await go('/dead');
  await page.getByText(/25 letters, looked at/).waitFor();

  // One letter is deleted by a second click. Danger is red, names it, and has no focus.
  await page
    .getByRole('checkbox', { name: /^select [0-9a-f]{8}/ })
    .first()
    .check();
  await page.getByRole('button', { name: 'Delete…' }).click();
  const danger = page.getByRole('dialog').getByRole('button', { name: /^Delete dead letter [0-9a-f]{8}…$/ });
  await danger.waitFor();
  assert.equal(await danger.getAttribute('class'), 'danger');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Back');
  await danger.click();
  await page.getByText(/24 letters, looked at/).waitFor();

  await page.locator('.actions').getByRole('link', { name: 'Delete…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete 24 dead letters' }).click();
  assert.equal(await page.locator('input[name=typed]').evaluate((it) => it.validity.valid), false, 'nothing was typed');
  assert.match(await confirm('Delete 24 dead letters', '24'), /24 letters deleted/);
  await page.getByText('The dead-letter queue is empty').waitFor();
  // A letter that comes while the page is open.
  const other = await context.newPage();
  await other.goto(`${cloud.url}/play`);
  await other.getByLabel('Payload, as JSON').fill('{"fail": {"error": "PermanentFailure", "message": "later"}}');
  await other.getByRole('button', { name: 'Send' }).click();
  await row('later').waitFor();
  assert.equal(await page.getByText('The dead-letter queue is empty').count(), 0);
  await other.close();
});

test('the server, too, refuses to delete many letters without the number', async () => {
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: cloud.url };
  const body = `csrf=${csrf}&do=purge&planned=25`;
  const answer = await fetch(`${cloud.url}/do`, { method: 'POST', headers, body, redirect: 'manual' });
  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /type 25 to confirm/);
});

test('all numbers of the overview were read at the same time', async () => {
  await go('/');
  await page.getByText(/All numbers were read at the same time, \d+ s ago/).waitFor();
  // The letter of the test before, wherever a number of letters is.
  await page.getByRole('link', { name: '1 dead letter', exact: true }).waitFor();
  assert.ok(!(await page.locator('#health').innerText()).includes('letter'), 'an older check would contradict it');
  for (const range of ['1 hour', '24 hours']) {
    await page.getByRole('link', { name: range }).click();
    await page.locator('.chip[aria-current]', { hasText: range }).waitFor();
    assert.match(await page.locator('#function-example-target').innerText(), /\d+ of \d+, \d+ %/);
  }
});

test('a letter of a megabyte is shown in part, and one that is gone says so', async () => {
  await send({ id: 'x'.repeat(900_000), fail: { error: 'PermanentFailure', message: 'large' } });
  await row('large').getByText('dead letter').waitFor();
  await go('/dead');
  await row('large').first().getByRole('link').first().click();
  await page.getByText(/The first 65,536 of 900,\d+ bytes/).waitFor();
  const letter = page.url();
  await page.getByRole('link', { name: 'Delete…' }).click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Delete dead letter/ })
    .click();
  await page.waitForURL(/\/dead$/);
  await page.locator('#did').getByText('1 letter deleted').first().waitFor();
  await page.goto(letter);
  await page.getByText('it was redriven or deleted').waitFor();
});

// The handler writes the register soon after the page shows a wait.
async function registered(events) {
  const plan = page.getByText(`${events} of slow to retry now`);
  do {
    await go('/confirm?do=retry_now&function=slow');
  } while ((await plan.count()) === 0);
}

test('waiting events are retried now, cancelled, paused and resumed', { timeout: 2 * PATIENCE }, async () => {
  await send({ id: 'ordered', fail: { attempts: 1, error: 'app.Slow' } }, 6, 'slow');
  await registered('6 events');
  await go('/');
  await page.getByRole('link', { name: 'Pause slow' }).click();
  assert.match(await confirm('Pause slow'), /slow is paused/);
  await page.getByText(/paused for/).waitFor();
  // Due times say nothing about when these events come back.
  assert.doesNotMatch(await page.locator('#function-slow').innerText(), /in \d/);
  await go('/events?error=app.Slow&state=waiting');
  assert.equal(await page.getByText('attempt 1 after the pause').count(), 6);
  await row('app.Slow').first().getByRole('link').click();
  await page.getByRole('heading', { name: 'slow · attempt 1 after the pause' }).waitFor();
  await page.locator('.waterfall .result', { hasText: 'paused' }).waitFor();

  // An operator's order overrides the pause.
  await go('/events?error=app.Slow&state=waiting');
  await page.getByText('1 to 6 of 6 events').waitFor();
  const [first, second] = await page
    .locator('table.events tbody tr')
    .evaluateAll((all) => all.map((it) => it.id.slice(6)));
  await page.locator(`[id="event-${first}"] input`).check();
  await page.getByRole('button', { name: 'Retry now…' }).click();
  assert.match(await confirm(`Retry event ${first.slice(0, 8)}… now`), /1 event of slow comes back now/);
  await go(`/events/${first}`);
  await page.getByRole('heading', { name: 'slow · succeeded in attempt 1' }).waitFor();

  await go(`/events/${second}`);
  await page.getByRole('link', { name: 'Cancel…' }).click();
  assert.match(await confirm(`Cancel event ${second.slice(0, 8)}…`), /1 event of slow is given up/);
  await page.getByRole('heading', { name: 'slow · given up after 0 attempts' }).waitFor();

  await go('/events?error=app.Slow&state=waiting');
  await page.locator('.every').getByRole('link', { name: 'Retry now…' }).click();
  await page.getByText('4 events of slow to retry now').waitFor();
  assert.match(await confirm('Retry 4 events now'), /4 events of slow come back now/);
  await go('/events?error=app.Slow&state=succeeded');
  await page.getByText('1 to 5 of 5 events').waitFor();

  // A pause can be undone.
  await go('/');
  await page.getByRole('link', { name: 'Resume slow' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume slow' }).click();
  await page.locator('#did').getByText('slow is resumed').waitFor();
  await page.locator('#did').getByRole('button', { name: 'Undo' }).click();
  await page.locator('#did').getByText('slow is paused').waitFor();
  await page.locator('#did').getByRole('button', { name: 'Undo' }).click();
  await page.locator('#did').getByText('slow is resumed').waitFor();
  await page.getByText(/paused for/).waitFor({ state: 'detached' });

  // An order for an event that has ended.
  await go(`/confirm?do=retry_now&id=${second}`);
  await page.getByText('nothing to do').waitFor();
});

test('without JavaScript every action is a page, and its result a line on the next one', async () => {
  const plain = await browser.newContext({ javaScriptEnabled: false });
  const page = await plain.newPage();
  await page.goto(`${cloud.url}/`);
  await page.getByRole('link', { name: 'Pause slow' }).click();
  await page.getByRole('heading', { name: 'Pause slow?' }).waitFor();
  await page.getByRole('button', { name: 'Pause slow' }).click();
  while ((await page.getByText('slow is paused').count()) === 0) await page.reload();
  await page.getByRole('button', { name: 'Undo' }).click();
  while ((await page.getByText('slow is resumed').count()) === 0) await page.reload();
  await plain.close();
});

test('an outage is played: throttled, timed out, and over', async () => {
  await outage('timeout', 300);
  await page.getByText('it times out').waitFor();
  for (const path of ['/', '/events', '/dead', '/policy', '/history', '/nothing']) {
    await go(path);
    await page.getByText('You play this outage').waitFor();
  }
  await endOutage();
  await outage('throttle', 300);
  await send({ id: 'throttled' });
  await endOutage();
  await go('/events');
  await page.locator('table.events tbody tr').first().getByText('succeeded').waitFor();
});

test('an outage of an unknown kind is refused', async () => {
  await play();
  await page.getByLabel('It').evaluate((it) => {
    it.options[0].value = 'flood';
    it.selectedIndex = 0;
  });
  await page.getByRole('button', { name: 'Begin' }).click();
  await page.getByText("expected error, timeout, throttle or end for `how`, got 'flood'").waitFor();
});

test('events are filtered while somebody types, and grouped', async () => {
  await go('/events');
  await page.keyboard.press('/');
  await page.keyboard.type('app.Down');
  await page.getByText('1 to 1 of 1 event', { exact: true }).waitFor();
  assert.match(page.url(), /text=app\.Down/);
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await page.getByLabel('error', { exact: true }).selectOption('app.Mended');
  await page.getByText('1 to 1 of 1 event', { exact: true }).waitFor();
  await go('/events?error=app.T*');
  await page.getByText('1 to 1 of 1 event', { exact: true }).waitFor();
  await go('/events?group=error');
  await row('app.Twice').getByRole('link').click();
  await page.getByText('1 to 1 of 1 event', { exact: true }).waitFor();
  await go('/events?state=given+up&text=%3Cnothing%3E');
  await page.getByText('No event meets the filter').waitFor();
  await page.getByText('Ids in payloads, such as that of an order, are not found').waitFor();
});

test('an older page of events stays where it is while more come', async () => {
  await send({ fail: { error: 'PermanentFailure', message: 'paged' } }, 60);
  await go('/events?text=paged');
  await page.getByText('1 to 50 of 60 events').waitFor();
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('51 to 60 of 60 events').waitFor();
  const ids = () => page.locator('table.events tbody tr').evaluateAll((all) => all.map((it) => it.id));
  const before = await ids();
  const other = await context.newPage();
  await other.goto(`${cloud.url}/play`);
  await other.getByLabel('Payload, as JSON').fill('{"fail": {"error": "PermanentFailure", "message": "paged"}}');
  await other.getByRole('button', { name: 'Send' }).click();
  await page.getByText('52 to 61 of 61 events').waitFor();
  assert.deepEqual(await ids(), before);
  await other.close();
  await page.getByRole('link', { name: 'Latest' }).click();
  await page.getByText('1 to 50 of 61 events').waitFor();
});

test('the list has thirty rows on a screen, and an event leads to its neighbours in it', async () => {
  await go('/events?text=paged');
  await page.getByText('1 to 50 of 61 events').waitFor();
  const rows = page.locator('table.events tbody tr');
  // What was done in the tests before is shown for a minute.
  await page.locator('#did').evaluate((it) => {
    it.hidden = true;
  });
  const shown = await rows.evaluateAll(
    (all) => all.filter((it) => it.getBoundingClientRect().bottom <= window.innerHeight).length,
  );
  assert.ok(shown >= 30, `expected 30 rows on a screen of 900 pixels, got ${shown}`);
  const ids = await rows.evaluateAll((all) => all.map((it) => it.id.slice(6)));
  await rows.nth(1).getByRole('link').click();
  const at = (nth) => page.waitForURL((url) => url.pathname === `/events/${ids[nth]}`);
  await at(1);
  await page.getByRole('link', { name: 'Older' }).click();
  await at(2);
  await page.getByRole('link', { name: 'Newer' }).click();
  await at(1);
  await page.getByRole('link', { name: 'Newer' }).click();
  await at(0);
  assert.equal(await page.getByRole('link', { name: 'Newer' }).count(), 0, 'the filter holds');
  await page.getByRole('link', { name: 'All', exact: true }).click();
  await page.getByText('1 to 50 of 61 events').waitFor();
});

test('a waterfall explains its colors, and its axis can be logarithmic', async () => {
  await go('/events?error=app.Down');
  await row('app.Down').getByRole('link').click();
  await page.getByText('Time since the first run, linear').waitFor();
  assert.deepEqual(await page.locator('.legend .key').allInnerTexts(), [
    'failed run',
    'successful run',
    'queued at Lambda',
    'waited',
    'still to wait',
    'due',
  ]);
  await page.getByRole('link', { name: 'Show it logarithmic' }).click();
  await page.getByText('Time since the first run, logarithmic').waitFor();
  assert.match((await page.locator('.axis text').allTextContents()).join(' '), /^1 s/);
  await page.locator('.waterfall li:not(.axis) a').first().click();
  await page.getByRole('heading', { name: 'The first run' }).waitFor();
  await page.getByText('Time since the first run, logarithmic').waitFor();
});

test('a form with bad JSON keeps what was typed, with the error beside it', async () => {
  await play();
  await page.getByLabel('How many').fill('7');
  await page.getByLabel('Payload, as JSON').fill('{"id": order-1}');
  await page.getByRole('button', { name: 'Send' }).click();
  await page
    .getByRole('alert')
    .getByText(/^the payload is not JSON: .*, at line 1, column 8$/)
    .waitFor();
  assert.equal(await page.getByLabel('Payload, as JSON').inputValue(), '{"id": order-1}');
  assert.equal(await page.getByLabel('How many').inputValue(), '7');
  assert.equal(await page.getByLabel('Payload, as JSON').getAttribute('aria-describedby'), 'payload-error');
});

test('the sliders of the policy move its tables, by the keyboard', async () => {
  await go('/policy');
  const tables = page.locator('#forecast');
  await page.getByText('1 event a second', { exact: true }).waitFor();
  // The first proposal is another policy than the deployed one, which the tests' settings make.
  const [deployed, proposed] = await page
    .locator('figure')
    .first()
    .locator('polyline')
    .evaluateAll((all) => all.map((it) => it.getAttribute('points')));
  assert.notEqual(deployed, proposed);
  assert.equal(await page.locator('#settings').innerText(), 'BASE_BACKOFF=2s\nMAX_BACKOFF=15m\nMAX_AGE=1d');
  const before = await tables.innerText();
  await page.getByLabel(/The function is down for/).focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText('An outage of 2 h').waitFor();
  assert.notEqual(await tables.innerText(), before);
  assert.match(page.url(), /outage=5/);
  await page.getByLabel(/Longest wait/).focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('#settings', { hasText: 'MAX_BACKOFF=1h' }).waitFor();
  // The deployed curve and the proposed one, in both charts, with round ticks.
  assert.equal(await page.locator('polyline.deployed, polyline.proposed').count(), 4);
  const ticks = (await page.locator('.plot text').allTextContents()).join(' ');
  assert.match(ticks, /1 s 10 s 1 m 10 m 1 h/);
  assert.doesNotMatch(ticks, /\d m \d+ s/);
  assert.deepEqual(await page.locator('#forecast tbody').first().locator('th').allInnerTexts(), [
    'retries of an event in its first day',
    'longest wait',
    'Comeback costs, for the outage',
  ]);
});

test('an error with a policy of its own waits by it, and has a curve of its own', async () => {
  await send({ id: 'limited', fail: { attempts: 1, error: 'app.LimitedByUpstream' } });
  await row('app.LimitedByUpstream').getByText('succeeded').waitFor();
  await row('app.LimitedByUpstream').getByRole('link').click();
  await page.getByRole('heading', { name: 'example-target · succeeded in attempt 1' }).waitFor();
  await page.locator('.waterfall li:not(.axis)').first().getByRole('link').focus();
  await page.getByText('The draw was 4 s, from 4 s to 4 s, by app.Limited* of *').waitFor();

  await go('/policy');
  await page.getByLabel('The policy for:').selectOption('app.Limited* of *');
  await page.getByText('waits of at most 4s, 3h, one after the other').waitFor();
  const rows = page.locator('#forecast table').last().locator('tbody tr');
  assert.equal(await rows.nth(0).locator('td').first().innerText(), '4 s');
  assert.equal(await rows.nth(1).locator('td').first().innerText(), '3 h');
  assert.match(await page.locator('#settings').innerText(), /^POLICIES=\{"\*":\{"ERRORS":\{"app\.Limited\*":/);
  await accessible('the policy of an error');
});

test('the health says what was checked, what was not possible, and how to mend what is wrong', async () => {
  const lambda = (method, path, body) =>
    fetch(`${cloud.url}/${path}`, {
      method,
      headers: { authorization: 'AWS4-HMAC-SHA256 Credential=local', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const loop = (recursiveLoop) =>
    lambda('PUT', '2024-08-31/functions/example-target/recursion-config', { RecursiveLoop: recursiveLoop });
  assert.ok((await loop('Terminate')).ok);
  await go('/');
  await page.getByRole('link', { name: /parts checked/ }).click();
  await page.getByRole('heading', { name: 'Health' }).waitFor();
  await page.getByRole('button', { name: 'Check again' }).click();
  const finding = page.locator('.findings li', { hasText: 'RecursiveLoop' });
  await finding.locator('pre', { hasText: 'put-function-recursion-config' }).waitFor();
  await page.locator('#health .state.bad', { hasText: 'problem' }).first().waitFor();
  assert.ok((await loop('Allow')).ok);
  await page.getByRole('button', { name: 'Check again' }).click();
  await finding.waitFor({ state: 'detached' });
  // The local cloud has no IAM.
  await page.locator('#health tbody tr', { hasText: 'partly checked' }).first().waitFor();
  await page.getByRole('heading', { name: 'Not possible' }).waitFor();
  await page.getByText('this endpoint has no iam:SimulatePrincipalPolicy').waitFor();
});

// What a finger or a pointer can hit, except for links within a sentence.
const targets = () =>
  page.evaluate(() => {
    const isInSentence = (it) =>
      it.matches('a') &&
      getComputedStyle(it).display === 'inline' &&
      it.parentElement.innerText.trim() !== it.innerText.trim();
    const all = document.querySelectorAll('a, button, input, select, textarea, summary');
    return [...all]
      .filter((it) => it.checkVisibility() && it.type !== 'hidden' && !it.matches('.skip') && !isInSentence(it))
      .map((it) => ({
        html: it.outerHTML.slice(0, 120),
        ...(it.closest('label') ?? it).getBoundingClientRect().toJSON(),
      }))
      .filter(({ width, height }) => width < 44 || height < 44)
      .map(({ html, width, height }) => `${html} is ${Math.round(width)} by ${Math.round(height)}`);
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
    run: `${event}?run=0&payload=show`,
    missing: '/nothing',
    dead: '/dead',
    letter,
    policy: '/policy',
    history: '/history',
    health: '/health',
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
      if (width === 360) assert.deepEqual(await targets(), [], `${name}: targets of less than 44 pixels`);
      await page.screenshot({ path: `${SHOTS}/${name}-${colorScheme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  // Paper has no links and no colors of the night.
  await page.emulateMedia({ colorScheme: 'dark', media: 'print' });
  for (const [name, path] of Object.entries(pages)) {
    await go(path);
    assert.equal(await page.locator('nav, button').locator('visible=true').count(), 0, `${name} on paper`);
    const ink = await page.evaluate(() => getComputedStyle(document.documentElement).color);
    assert.equal(ink, 'rgb(0, 0, 0)');
    await page.pdf({ path: `${SHOTS}/${name}.pdf`, format: 'A4' });
  }
  await page.emulateMedia({ colorScheme: null, media: null });
  await endOutage();
});

test('the lesson shows an outage by itself', { timeout: 2 * PATIENCE }, async () => {
  // Without a choice it takes a function that needs no tenant.
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: cloud.url };
  await fetch(`${cloud.url}/play/lesson`, { method: 'POST', headers, body: `csrf=${csrf}`, redirect: 'manual' });
  await go('/');
  for (const [step, text] of [
    ['It fails', 'example-target is down for 12 s. 12 events are sent to example-target'],
    ['It waits', 'for a random time below a ceiling, which doubles with each failure'],
    ['It is back', 'example-target is back'],
    ['All is over', 'All events have come back'],
  ]) {
    await page.locator('#lesson [aria-current=step]', { hasText: step }).waitFor();
    await page.locator('#lesson').getByText(text).waitFor();
  }
  // In an outage of seconds, Lambda's own retry after a minute would succeed, too.
  await page
    .getByText(/Lambda alone .* would have brought them back after a minute, but an outage of more than/)
    .waitFor();
  await page.locator('#lesson').getByRole('button', { name: 'Dismiss' }).click();
  await page.locator('#lesson .notice').waitFor({ state: 'detached' });
  // What has recovered is not red.
  await go('/');
  await page.locator('#function-example-target .state:not(.bad)').waitFor();
});

// What is cut off at this width, and what a pointer can't hit.
const unreachable = () =>
  page.evaluate(() => {
    const text = (it) => it.outerHTML.slice(0, 120);
    const isShown = (it) => it.checkVisibility() && it.type !== 'hidden' && !it.closest('.hidden, .skip, thead');
    const scrolled = [...document.querySelectorAll('html, main, .wide')].filter(
      (it) => it.scrollWidth > it.clientWidth,
    );
    // An error message may be cut: its event has the whole.
    const cells = document.querySelectorAll('.functions :is(th, td), .events :is(thead th, .when), .groups td, nav a');
    const cut = [...cells].filter((it) => isShown(it) && it.scrollWidth > it.clientWidth + 1);
    const acting = [...document.querySelectorAll('a, button, select, summary, input:not([type=range])')].filter(
      isShown,
    );
    const covered = acting.filter((it) => {
      it.scrollIntoView({ block: 'center', behavior: 'instant' });
      const { left, top, width, height } = it.getClientRects()[0];
      const hit = document.elementFromPoint(left + width / 2, top + height / 2);
      return !(it.contains(hit) || hit?.contains(it));
    });
    const links = [...document.querySelectorAll('header nav a')];
    const wrapped = links.filter((it) => it.getBoundingClientRect().top !== links[0].getBoundingClientRect().top);
    return [
      ...scrolled.map((it) => `scrolls: ${text(it)}`),
      ...cut.map((it) => `is cut: ${text(it)}`),
      ...covered.map((it) => `can't be reached: ${text(it)}`),
      ...wrapped.map((it) => `wraps: ${text(it)}`),
    ];
  });

test('on a phone, a tablet and a desktop nothing is cut, nothing scrolls aside, and every action can be reached', async () => {
  await send(
    { id: 'wide', fail: { attempts: 1, error: 'app.Wide', message: 'a message that is '.repeat(12) } },
    2,
    'slow',
  );
  await row('app.Wide').first().getByText('waiting').waitFor();
  const event = await row('app.Wide').first().getByRole('link').first().getAttribute('href');
  await go('/dead');
  await page.getByText(/looked at/).waitFor();
  const letter = await page.locator('table.events tbody a').first().getAttribute('href');
  const paths = ['/', '/events', '/events?group=error', event, '/dead', letter, '/policy', '/health', '/history'];
  const asking = ['/confirm?do=purge&reason=not_retryable', '/confirm?do=retry_now&function=slow'];
  for (const path of [...paths, '/play', ...asking]) {
    await go(path);
    for (const width of [390, 1024, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      assert.deepEqual(await unreachable(), [], `${path}, ${width}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test('a lesson that somebody ends takes its outage with it', async () => {
  await play();
  await page.getByRole('button', { name: 'Start the lesson' }).click();
  await page.getByText('example-target is down: it fails').waitFor();
  await page.getByRole('button', { name: 'End the lesson' }).click();
  await page.getByText('example-target is down').first().waitFor({ state: 'detached' });
  assert.equal(await page.locator('#lesson .notice').count(), 0);
});

test('a lesson with a function that can never be retried says why, and leaves no outage', async () => {
  const other = await local(0, ['JITTER=none'], [], [], ['--functions', TENANTS_FILE]);
  try {
    await page.goto(`${other.url}/play`);
    await page.getByLabel('Function or queue').selectOption('a-tenants');
    await page.getByText("a-tenants can't be retried: it has tenant isolation").waitFor();
    await page.getByRole('button', { name: 'Start the lesson' }).click();
    await page.locator('#lesson .bad').getByText("a-tenants can't be retried: it has tenant isolation").waitFor();
    assert.equal(await page.getByText('is down').count(), 0);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.locator('#lesson .notice').waitFor({ state: 'detached' });
  } finally {
    await other.end();
  }
});

test('the lesson shows an outage of the consumer of a queue', { timeout: 2 * PATIENCE }, async () => {
  await play('sqs:imports');
  await page.getByRole('button', { name: 'Start the lesson' }).click();
  for (const text of [
    'importer is down for 12 s. 12 events are sent to sqs:imports',
    'SQS moves each message to the retry queue',
    'importer is back',
    /All events have come back .* SQS alone/,
  ]) {
    await page.locator('#lesson').getByText(text).waitFor();
  }
  await page.locator('#lesson').getByRole('button', { name: 'Dismiss' }).click();
  await go('/events?function=sqs:imports&state=succeeded');
  await page.getByText('1 to 14 of 14 events').waitFor();

  // A queue is no function, and of a consumer that is none nobody knows how many of its runs succeed.
  await go('/');
  assert.match(await page.locator('.loop li').first().innerText(), /^3 functions, 2 queues/);
  assert.match(await page.locator('[id="function-sqs:imports"]').innerText(), /\d+ of \d+, \d+ %/);
  assert.doesNotMatch(await page.locator('[id="function-sqs:mails"]').innerText(), /%/);

  // A consumer that is no function can't be made to fail.
  await play('sqs:mails');
  await page.getByRole('button', { name: 'Begin' }).click();
  await page.getByText('the consumer of mails is a program of your own').waitFor();
});

// Invokes a function of a local cloud, as its clients do.
async function invoke(url, name, payload, headers = {}) {
  const { status } = await fetch(`${url}/2015-03-31/functions/${name}/invocations`, {
    method: 'POST',
    headers: { authorization: 'AWS4-HMAC-SHA256 Credential=local', 'x-amz-invocation-type': 'Event', ...headers },
    body: JSON.stringify(payload),
  });
  assert.equal(status, 202);
}

const numbers = (html, pattern) => [...html.matchAll(pattern)].map(([, text]) => Number(text.replace(/,/g, '')));
const sum = (all) => all.reduce((one, other) => one + other, 0);

// The numbers of the overview: the failed events, where they are, and the same of each function. They add up.
async function equation(url, headers = {}) {
  const html = await (await fetch(url, { headers })).text();
  const [failed] = numbers(html, /<strong>([\d,]+)<\/strong> events? failed/g);
  const parts = numbers(html, /<li class="(?:equals|plus)">(?:<a[^>]*>)?<strong>([\d,]+)</g);
  const rows = html.match(/<tr id="function-[\s\S]*?<\/tr>/g).map((row) => {
    // The share of failed runs comes first.
    return numbers(row, /<td class="number">([\d,]+)<span class="unit"> (?:waiting|at Lambda|retried|back|given up)</g);
  });
  const all = { failed, parts, rows, look: html.match(/the same time, <time datetime="([^"]+)/)[1] };
  assert.equal(sum(parts), failed, JSON.stringify(all));
  for (const nth of parts.keys()) assert.equal(sum(rows.map((row) => row[nth])), parts[nth], JSON.stringify(all));
  return all;
}

test('under load the failed events are those that wait, are at Lambda, are back or given up, at every look', {
  timeout: 2 * PATIENCE,
}, async () => {
  const EVENTS = 600;
  const LOST = 60;
  await go('/');
  await page.getByRole('link', { name: 'example-target', exact: true }).waitFor();
  const before = await equation(cloud.url);
  await page.evaluate(() => {
    window.shifts = [];
    const what = ({ node }) => node?.closest?.('[id]')?.id;
    const add = (list) =>
      list.getEntries().forEach((it) => window.shifts.push([it.value, it.sources.map(what).join()]));
    new PerformanceObserver(add).observe({ type: 'layout-shift' });
  });
  const sent = Array.from({ length: EVENTS }, (_, nth) => {
    const fail = nth < LOST ? { error: 'PermanentFailure' } : { attempts: 3, error: 'app.Loaded' };
    return invoke(cloud.url, 'example-target', { id: `load-${nth}`, fail });
  });
  const looks = new Map();
  let reads = 0;
  // Until some have come back. Lambda runs the last ones minutes later, because it has throttled them.
  for (let last = before; reads < 100 || looks.size < 8 || last.parts[2] === before.parts[2]; ) {
    last = await equation(cloud.url);
    looks.set(last.look, last);
    reads += 1;
  }
  await Promise.all(sent);
  const all = [...looks.values()];
  for (const [nth, what] of ['wait', 'are at Lambda', 'are back', 'are given up'].entries()) {
    assert.ok(
      all.some(({ parts }) => parts[nth] > before.parts[nth]),
      `none ${what}`,
    );
  }
  const failed = all.at(-1).failed - before.failed;
  assert.ok(failed > 0 && failed <= EVENTS, `${failed} of ${EVENTS} failed`);
  // The layout stands still meanwhile.
  const shifts = await page.evaluate(() => window.shifts);
  assert.ok(sum(shifts.map(([value]) => value)) < 0.1, JSON.stringify(shifts));
});

test('without an envelope an event is one event at every look, on this page and on that of an account', {
  timeout: 4 * PATIENCE,
}, async () => {
  const EVENTS = 120;
  const LOST = 12;
  const settings = ['TRANSPARENT=true', 'BASE_BACKOFF=1s', 'MAX_BACKOFF=2s'];
  const { url, end } = await local(0, settings);
  const web = await start(['web', '--port', '0', `--local=${url}`], 'Ctrl-C');
  try {
    const signed = await fetch(web.url, { redirect: 'manual' });
    const account = { cookie: signed.headers.getSetCookie()[0].split(';')[0] };
    const { origin, pathname } = new URL(web.url);
    const ofAccount = () => equation(origin + pathname, account);
    const read = async (look) => {
      // Until the first look at the functions there are no numbers.
      for (;;) {
        const found = await look().catch((error) => error);
        if (!(found instanceof TypeError)) return found;
      }
    };
    await read(() => equation(url));
    await read(ofAccount);
    // A function without an envelope can't count its runs, so the events fail until a time. Half of them have equal bytes.
    const until = new Date(Date.now() + 12_000).toISOString();
    const sent = Array.from({ length: EVENTS }, (_, nth) => {
      const fail = nth < LOST ? { error: 'PermanentFailure' } : { until, error: 'app.Loaded' };
      return invoke(url, 'example-target', { id: nth % 2 ? 'same' : `load-${nth}`, fail });
    });
    const looks = new Set();
    let reads = 0;
    let last;
    for (let ended = false; !ended || reads < 100 || looks.size < 8; reads += 1) {
      last = await equation(url);
      assert.ok(last.failed <= EVENTS, `${last.failed} of ${EVENTS} events failed`);
      looks.add(last.look);
      const there = await ofAccount();
      assert.ok(there.failed <= EVENTS, `${there.failed} of ${EVENTS} events failed`);
      const [waiting, atLambda, back, givenUp] = last.parts;
      ended = waiting + atLambda === 0 && back > 0 && givenUp === LOST;
    }
    await Promise.all(sent);
    assert.deepEqual(last.parts, [0, 0, last.failed - LOST, LOST]);
    // The account's page knows it from the handler's log alone.
    const expected = [0, last.failed - LOST, LOST];
    for (let there; there === undefined || `${there.parts}` !== `${expected}`; ) {
      there = await ofAccount();
      assert.ok(there.failed <= last.failed, `${there.failed} of ${last.failed} events failed`);
    }
    const lives = await (await fetch(`${url}/events?function=example-target&state=succeeded`)).text();
    assert.match(lives, /✗×[2-9]/, 'some have failed several times');
    // The payload of each run is shown, also of a retry, whose event is known only after it began.
    const [, id] = lives.match(/href="\/events\/([0-9a-f-]+)/);
    for (const run of [0, 1]) {
      const shown = await (await fetch(`${url}/events/${id}?run=${run}&payload=show`)).text();
      assert.ok(shown.includes(until), `run ${run}: ${shown}`);
    }
    const says = spawnSync(process.env.COMEBACK, ['waiting', '--json', `--local=${url}`], { encoding: 'utf8' });
    assert.equal(JSON.parse(says.stdout).selected, 0, says.stdout + says.stderr);
  } finally {
    await web.end();
    await end();
  }
});

test('what blocks an event stands on its page with what to do, and blocks no function without tenants', async () => {
  const file = join(SHOTS, 'functions.json');
  writeFileSync(file, JSON.stringify({ tenants: { code: EXAMPLE, tenants: true } }));
  const settings = ['TENANT_ID=/tenant', 'BASE_BACKOFF=1s', 'MAX_BACKOFF=1s'];
  const args = ['local', '--port', '0', '--functions', file, ...settings.flatMap((it) => ['--set', it])];
  const { url, end } = await start(args, 'until Ctrl-C');
  try {
    const fail = { attempts: 1, error: 'app.Down' };
    await invoke(url, 'tenants', { id: 'nobody', fail }, { 'x-amz-tenant-id': 'blue' });
    await invoke(url, 'example-target', { id: 'ordinary', fail });
    await page.goto(`${url}/events?function=example-target`);
    await row('app.Down').getByText('succeeded').waitFor();
    await page.goto(`${url}/events?function=tenants`);
    await row('app.Down').getByText('could not be made').waitFor();
    await row('app.Down').getByRole('link').click();
    await page.getByRole('heading', { name: /^tenants · attempt 1 could not be made, again / }).waitFor();
    const notice = page.getByRole('alert').filter({ hasText: 'could not act on it' });
    await notice.getByText('TENANT_ID is /tenant, and the payload has nothing there').waitFor();
    await notice.getByText('The function has tenant isolation').waitFor();
    await page.locator('.waterfall').getByText('! blocked').waitFor();
    assert.equal(await page.locator('.waterfall svg text', { hasText: '!' }).count(), 1);
    await accessible('a blocked event');
    await page.screenshot({ path: `${SHOTS}/blocked.png` });
  } finally {
    await end();
  }
});

// What the program says, as JSON or as text.
function comeback(url, ...args) {
  const { stdout, stderr } = spawnSync(process.env.COMEBACK, [...args, `--local=${url}`], { encoding: 'utf8' });
  assert.ok(stdout, stderr);
  return stdout;
}

test('what Lambda refuses to run has not failed: its page says so, since when, and what to type', {
  timeout: 2 * PATIENCE,
}, async () => {
  const EVENTS = 40;
  const { url, end } = await local(0, ['BASE_BACKOFF=1s', 'MAX_BACKOFF=15m'], [`ship=${EXAMPLE}`, `email=${EXAMPLE}`]);
  const concurrency = (name, method, body) => {
    const headers = { authorization: 'AWS4-HMAC-SHA256 Credential=local', 'content-type': 'application/json' };
    return fetch(`${url}/2017-10-31/functions/${name}/concurrency`, { method, headers, body });
  };
  const throttle = (name) => concurrency(name, 'PUT', '{"ReservedConcurrentExecutions": 0}');
  try {
    assert.ok((await throttle('ship')).ok && (await throttle('email')).ok);
    await invoke(url, 'example-target', { id: 'failing', fail: { error: 'app.Down' } });
    await Promise.all(Array.from({ length: EVENTS }, (_, nth) => invoke(url, 'ship', { id: `parcel-${nth}` })));
    // None stays as one that has failed and is on its way to the handler.
    await page.goto(`${url}/events?function=ship&state=waiting`);
    await page.getByText(`1 to ${EVENTS} of ${EVENTS} events`).waitFor();
    await page.locator('tr', { hasText: 'Lambda refused it' }).first().waitFor();
    assert.deepEqual(new Set(await page.locator('.events .marks').allInnerTexts()), new Set(['⊘']));

    // The plan says how many can't run.
    await page.locator('.every').getByRole('link', { name: 'Retry now…' }).click();
    await page.getByText(`${EVENTS} of these belong to ship, which can't run`).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Back');
    await page.getByRole('dialog').getByRole('link', { name: 'Back' }).click();

    await page.locator('table.events tbody a').first().click();
    await page.getByRole('heading', { name: /^ship · attempt 1 in \d+ m/ }).waitFor();
    const notice = page.getByRole('status').filter({ hasText: 'It has not run' });
    await notice.getByText(/Lambda has refused all events of ship for .*, since \d{4}-/).waitFor();
    const command = `aws lambda delete-function-concurrency --function-name ship --endpoint-url ${url}`;
    assert.equal(await notice.locator('pre').innerText(), command);
    await page.locator('.waterfall .result', { hasText: '⊘ not run' }).waitFor();
    assert.equal(await page.locator('.waterfall rect.bad').count(), 0, 'a red bar');
    await page.locator('.waterfall li:not(.axis) a').first().focus();
    await page.locator('.tip').getByText('No attempt is counted').waitFor();
    const text = await page.locator('main').innerText();
    for (const untrue of ['draw', 'dead letter', '✗', 'no error type']) assert.ok(!text.includes(untrue), untrue);
    await accessible('an event that was not run');
    await page.screenshot({ path: `${SHOTS}/refused.png` });
    await page.getByRole('link', { name: 'Show the payload' }).click();
    assert.match(await page.locator('#panel pre').innerText(), /"parcel-\d+"/);
    const event = new URL(page.url()).pathname;

    // The program says the same of the event, and one word for each function.
    const trace = comeback(url, 'trace', event.split('/').pop());
    assert.match(trace, /not run Lambda refused it/);
    assert.doesNotMatch(trace, /failed/);
    await page.goto(url);
    const of = (name) => page.locator(`[id="function-${name}"]`);
    await of('ship').getByText('throttled').waitFor();
    await of('ship').getByText('no runs').waitFor();
    await of('example-target').getByText('failing').waitFor();
    const { functions } = JSON.parse(comeback(url, 'status', '--json'));
    const words = Object.fromEntries(functions.map((it) => [it.function.split(':')[6], it.state]));
    assert.deepEqual(words, { ship: 'throttled', email: 'idle', 'example-target': 'failing' });

    // What is wrong with both is one card, with both commands.
    await page.goto(`${url}/health`);
    const card = page.locator('.findings li', { hasText: 'its reserved concurrency is 0' });
    await card.getByText('function email').waitFor();
    assert.equal(await card.count(), 1);
    assert.match(await card.locator('pre').innerText(), /--function-name email .*\n.*--function-name ship /);

    // It runs again, and the attempt that was not made is made.
    assert.ok((await concurrency('ship', 'DELETE')).ok);
    await page.goto(url + event);
    await page.getByRole('link', { name: 'Retry now…' }).click();
    await confirm(`Retry event ${event.split('/').pop().slice(0, 8)}… now`);
    await page.getByRole('heading', { name: 'ship · succeeded in attempt 1' }).waitFor();
    const labels = page.locator('.waterfall li:not(.axis) .label');
    assert.deepEqual(await labels.allInnerTexts(), ['first run', 'attempt 1']);
    assert.equal(await page.getByText('It has not run').count(), 0);
  } finally {
    await end();
  }
});

test('an account has a page of its own, which needs the token', async () => {
  // The local cloud no longer has the log of the first tests.
  await send({ id: 'of-the-account', fail: { attempts: 1, error: 'app.Shown' } });
  const web = await start(['web', '--port', '0', `--local=${cloud.url}`], 'Ctrl-C');
  try {
    const { origin, pathname, searchParams } = new URL(web.url);
    const token = searchParams.get('token');
    assert.match(pathname, /^\/[0-9a-f]{32}\/$/, 'a path that nobody can guess');
    const refused = await fetch(origin);
    assert.equal(refused.status, 403);
    const text = await refused.text();
    assert.match(text, /<link rel="stylesheet" href="\/page.css">/);
    assert.ok(!text.includes(pathname.slice(1, -1)), 'the refusal does not tell the path');
    assert.equal((await fetch(`${origin}/page.css`)).status, 200, 'the refusal is styled');
    for (const path of [
      '/?token=guessed',
      `/?token=${token}`,
      `/guessed/?token=${token}`,
      pathname,
      `${pathname}?token=guessed`,
      `${pathname}page.js`,
      `${pathname}../?token=${token}`,
      `${pathname}..%2f?token=guessed`,
    ]) {
      assert.equal((await fetch(origin + path)).status, 403, path);
    }
    const account = await context.newPage();
    await account.goto(web.url);
    assert.equal(account.url(), origin + pathname);
    await account.getByRole('link', { name: 'example-target', exact: true }).waitFor();
    // All links and forms of the page stay below its path.
    const links = await account
      .locator('a, form')
      .evaluateAll((all) => all.map((it) => it.getAttribute('href') ?? it.action).filter((it) => !it.startsWith('#')));
    for (const link of links) assert.ok(new URL(link, origin).pathname.startsWith(pathname), link);
    // No other server on this host gets the cookie, whatever its port and the path.
    const got = [];
    const other = createServer((asked, answer) => {
      got.push([asked.url, asked.headers.cookie, asked.headers.referer]);
      answer.setHeader('content-type', 'text/html').end('other');
    });
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
    const stranger = `http://127.0.0.1:${other.address().port}`;
    for (const path of ['/', '/events', '/page.css']) await account.goto(stranger + path);
    await account.goto(web.url);
    await account.evaluate((url) => fetch(url, { mode: 'no-cors', credentials: 'include' }).catch(() => {}), stranger);
    await new Promise((resolve) => other.close(resolve) && other.closeAllConnections());
    assert.deepEqual(
      got.filter(([url]) => !url.endsWith('.ico')),
      ['/', '/events', '/page.css', '/'].map((path) => [path, undefined, undefined]),
    );
    const [cookie] = await context.cookies(web.url);
    assert.deepEqual([cookie.path, cookie.httpOnly, cookie.sameSite], [pathname, true, 'Strict']);
    // The other defences hold for who has the cookie, too: DNS rebinding, and a form of another page.
    const status = (method, headers) =>
      new Promise((resolve, reject) => {
        const { hostname, port } = new URL(origin);
        const own = { cookie: `${cookie.name}=${cookie.value}`, ...headers };
        const call = request({ hostname, port, method, path: pathname, headers: own }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        });
        call.on('error', reject);
        call.end();
      });
    assert.equal(await status('GET', {}), 200);
    assert.equal(await status('GET', { host: 'evil.example' }), 403);
    assert.equal(await status('POST', { origin: stranger }), 403);
    // The state is from the handler's log, which has no error message and does not know of a success.
    await account.goto(`${origin}${pathname}events?error=app.Shown`);
    await account.getByText('runs, or has succeeded').waitFor();
    assert.equal(await account.getByRole('link', { name: 'Play' }).count(), 0);
    await account.close();
  } finally {
    await web.end();
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
    // The page refuses a large form before it has read it all, so the connection may break before the answer is here.
    const codes = ['EPIPE', 'ECONNRESET', 'UND_ERR_SOCKET'];
    const broken = (error) => (codes.includes(error.cause?.code) ? 413 : error);
    const status = await form(headers, body).then((answer) => answer.status, broken);
    assert.equal(status, expected, JSON.stringify([headers, body.slice(0, 60)]));
  }
  const { headers } = await fetch(cloud.url);
  assert.match(headers.get('content-security-policy'), /default-src 'none'/);
});

test('the page says that the connection is lost, and goes on when it is back', async () => {
  await go('/');
  const { port } = new URL(cloud.url);
  await cloud.end('SIGKILL');
  await page.getByText('The connection is lost').waitFor();
  cloud = await deploy(port);
  await page.getByText('The connection is lost').waitFor({ state: 'hidden' });
  await page.getByText('No event has failed yet').waitFor();
});
