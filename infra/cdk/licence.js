// jsii takes the identifier of one licence, and no expression, though all that it packs for do. So it is told of ours.
require('spdx-license-list/simple').add(require('./package.json').license);
