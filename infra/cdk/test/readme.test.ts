import * as assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestStack } from './app';

const ROOT = join(__dirname, '..', '..');
const DOCS = join(ROOT, '..', '..', 'docs', 'deploy');
const PAGES = [join(ROOT, 'README.md'), join(DOCS, 'cdk-options.md'), join(DOCS, 'cdk-operations.md')]
  .map((page) => readFileSync(page, 'utf8'))
  .join();
const { types, license } = JSON.parse(readFileSync(join(ROOT, '.jsii'), 'utf8'));

test('every optional property documents its default', () => {
  const optional = Object.values<any>(types)
    .filter(({ kind }) => kind === 'interface')
    .flatMap(({ name, properties = [] }) =>
      properties.filter((each: any) => each.optional).map((each: any) => [name, each]),
    );
  assert.ok(optional.length > 20);
  for (const [name, { name: property, docs }] of optional)
    assert.ok(docs?.summary && docs.default, `${name}.${property}`);
});

test('the pages name every property, every method and every alarm', () => {
  const members = Object.values<any>(types).flatMap(({ name, kind, properties = [], methods = [] }) =>
    [...(kind === 'interface' ? properties : []), ...methods].map((each: any) => [name, each.name]),
  );
  // The CDK documents its own options.
  const own = members.filter(([name]) => name !== 'RetryMetricOptions' && name !== 'RetryDashboardProps');
  for (const [name, member] of own) assert.match(PAGES, new RegExp(`\\b${member}\\b`), `${name}.${member}`);

  const stack = new TestStack({ ledger: true, probe: true });
  stack.retry.attach(stack.function('Orders'));
  for (const { node } of stack.retry.alarms()) assert.match(PAGES, new RegExp(`\`${node.id}\``), node.id);
});

test('packages of all languages name and contain both licences', () => {
  assert.equal(license, 'MIT OR Apache-2.0');
  for (const [name, words] of [
    ['MIT', 'MIT License'],
    ['APACHE', 'Apache License'],
  ]) {
    assert.ok(readFileSync(join(ROOT, `LICENSE-${name}`), 'utf8').includes(words), name);
  }
});
