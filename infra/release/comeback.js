#!/usr/bin/env node
// Starts the program of the package for this platform, which npm has installed beside this one.
const { spawnSync } = require('node:child_process');

const name = `comeback-cli-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/comeback`);
} catch {
  const { optionalDependencies } = require('./package.json');
  const known = Object.keys(optionalDependencies).map((each) => each.replace('comeback-cli-', ''));
  const why = name in optionalDependencies ? 'was not installed: npm needs optional dependencies' : 'does not exist';
  console.error(`comeback: the package ${name} ${why}. There are programs for ${known.join(', ')}.`);
  process.exit(1);
}
const ended = spawnSync(program, process.argv.slice(2), { stdio: 'inherit' });
if (ended.error) {
  throw ended.error;
}
// As a shell does if the program was ended by a signal.
process.exitCode = ended.status ?? 1;
