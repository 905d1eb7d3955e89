// What the search of a book finds first, as its page computes it: node search.js FOLDER QUERY...
const { readdirSync, readFileSync } = require('node:fs');
const { resolve } = require('node:path');
const { runInNewContext } = require('node:vm');

const [folder, ...queries] = process.argv.slice(2);
const names = readdirSync(folder);
const file = (pattern) => resolve(folder, names.find((name) => pattern.test(name)) ?? '');

const elasticlunr = require(file(/^elasticlunr.*\.js$/));
const window = { search: {} };
runInNewContext(readFileSync(file(/^searchindex.*\.js$/), 'utf8'), { window });
const { index, doc_urls: urls, search_options: options } = window.search;
const loaded = elasticlunr.Index.load(index);
for (const query of queries) {
  console.log(urls[loaded.search(query, options)[0]?.ref] ?? 'nothing');
}
