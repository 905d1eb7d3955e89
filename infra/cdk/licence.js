// jsii knows licences by the identifier of one, and no expression, though all that it packs for do. So it is told of
// ours.
const { license: name } = require('./package.json');
require('spdx-license-list/simple').add(name);
require('spdx-license-list')[name] = { name, url: 'https://spdx.org/licenses/', osiApproved: true };
