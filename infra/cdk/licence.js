// jsii only accepts the identifier of one licence, but all package registries accept expressions. So ours is added
// here.
const { license: name } = require('./package.json');
require('spdx-license-list/simple').add(name);
require('spdx-license-list')[name] = { name, url: 'https://spdx.org/licenses/', osiApproved: true };
