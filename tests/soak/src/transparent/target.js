// The function of soak-target.rs.

class ConnectionFailed extends Error {}
class PermanentFailure extends Error {}

const failures = { ConnectionFailed, PermanentFailure };

exports.handler = async (event, context) => {
  const run = context.awsRequestId;
  process.stdout.write(`${JSON.stringify({ run, trace: process.env._X_AMZN_TRACE_ID })}\n`);
  if (parseInt(run.slice(0, 2), 16) >= event.fails) {
    return;
  }
  if (event.how === 'crash') {
    process.exit(1);
  }
  const failure = new failures[event.how]('the upstream is down');
  failure.name = event.how;
  throw failure;
};
