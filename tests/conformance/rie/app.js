// A function in Node.js without code for envelopes. It does what its event says, as app.py does.
if (process.env.START === 'error') throw new Error('no settings');
if (process.env.START === 'crash') process.exit(3);

exports.handler = async (event, context) => {
  if (event.do === 'raise') throw new Error('the upstream is down');
  if (event.do === 'exit') process.exit(3);
  if (event.do === 'hang') await new Promise((done) => setTimeout(done, 3_600_000));
  if (event.do === 'rest') return context.getRemainingTimeInMillis();
  const told = context.clientContext && JSON.parse(context.clientContext.custom.comeback);
  return { event, told: told ?? null, tenant: context.tenantId ?? null };
};
