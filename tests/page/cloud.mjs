// Starts `comeback` as a user does, and Chromium.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const { COMEBACK, CHROMIUM } = process.env;

// Debian's Chromium in a closed network, as root.
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

// Starts `comeback` with these arguments. Resolves when it has printed a line that has an URL and one that has `ready`.
export async function start(args, ready) {
  const child = spawn(COMEBACK, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = [];
  const url = await new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`comeback ended with ${code}: ${lines.join('\n')}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      const address = lines.map((it) => it.match(/^http:\/\/\S+/)).find(Boolean);
      if (address && line.includes(ready)) resolve(address[0]);
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
  return { url: url.replace(/\/$/, ''), end };
}

export const local = (port, settings) =>
  start(
    ['local', '--port', String(port), '--ledger', ...settings.flatMap((setting) => ['--set', setting])],
    'until Ctrl-C',
  );

export const browser = () => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
