// Parses files with Terraform's own parser, and prints its errors: node parse.js MODULES FILE...
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const [modules, ...files] = process.argv.slice(2);
const { parse } = createRequire(`${modules}/`)('@cdktf/hcl2json');

async function main() {
  for (const file of files) {
    try {
      await parse(file, readFileSync(file, 'utf8'));
    } catch (error) {
      console.log(`${file}: ${error.message ?? error}`);
    }
  }
}

main();
