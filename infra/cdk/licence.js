// jsii accepts only the identifier of a single licence, but all package registries accept expressions. This adds ours
// to jsii's list.
const { license: name } = require('./package.json');
require('spdx-license-list/simple').add(name);
require('spdx-license-list')[name] = { name, url: 'https://spdx.org/licenses/', osiApproved: true };
