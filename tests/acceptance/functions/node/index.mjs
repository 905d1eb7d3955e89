// A function behind the layer. It never sees an envelope, so it fails until a time, and not for a number of attempts.
export async function handler(order) {
  if (Date.now() / 1000 < order.fail?.until) {
    throw new Error(order.id);
  }
  const attempt = order._retry_metadata?.attempt ?? 0;
  const id = order.id ?? order._original_payload.id;
  process.stdout.write(`${JSON.stringify({ placed: id, attempt })}\n`);
  return id;
}
