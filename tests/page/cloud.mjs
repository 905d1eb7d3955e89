// Starts `comeback` as a user would, and Chromium.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const { COMEBACK, CHROMIUM } = process.env;

// Debian's Chromium, as root and without network access.
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

// Starts `comeback` with these arguments. Resolves when it has printed a line with a URL and a line with `ready`.
export async function start(args, ready) {
  const child = spawn(COMEBACK, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = [];
  let isReady = false;
  const url = await new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`comeback ended with ${code}: ${lines.join('\n')}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      // The program keeps printing a few lines for each event.
      if (isReady) return;
      lines.push(line);
      const address = lines.map((it) => it.match(/^http:\/\/\S+/)).find(Boolean);
      isReady = address && line.includes(ready);
      if (isReady) resolve(address[0]);
    });
  });
  const end = (signal = 'SIGTERM') => {
    const ended = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    else return Promise.resolve();
    return ended;
  };
  return { url: url.replace(/\/$/, ''), pid: child.pid, end };
}

export const local = (port, settings, functions = [], queues = [], more = []) =>
  start(
    [
      ...['local', '--port', String(port)],
      ...settings.flatMap((setting) => ['--set', setting]),
      ...functions.flatMap((code) => ['--function', code]),
      ...queues.flatMap((queue) => ['--queue', queue]),
      ...more,
    ],
    'until Ctrl-C',
  );

export const browser = () => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
