"""ministack on a free port of loopback; prints its endpoint, as `comeback-local` does.

It must know its port before it is imported, so it is given a socket that is bound already. And it has
a fault that would make any test of the loop a matter of luck: a failure record is appended to its
queue's list of messages while the event source mapping, under a lock, replaces that list by a shorter
one, and about three records in a thousand are never seen again. Here the record takes the lock too.
"""

import asyncio
import os
import socket
from typing import Any

HOST = "127.0.0.1"

listener = socket.create_server((HOST, 0))
port = listener.getsockname()[1]
endpoint = f"http://{HOST}:{port}"
os.environ |= {
    "BIND_HOST": HOST,
    "MINISTACK_HOST": HOST,
    "GATEWAY_PORT": str(port),
    # Where its functions find it.
    "AWS_ENDPOINT_URL": endpoint,
    "LOG_LEVEL": "ERROR",
}

from hypercorn.asyncio import serve  # noqa: E402
from hypercorn.config import Config  # noqa: E402
from ministack.app import app  # noqa: E402
from ministack.services import lambda_svc, sqs  # noqa: E402

append_failure_record = lambda_svc._route_async_failure


def append_failure_record_alone(*arguments: Any) -> None:
    """Appends a failure record while nobody else replaces the queue's messages."""
    with sqs._queues_lock:
        append_failure_record(*arguments)


lambda_svc._route_async_failure = append_failure_record_alone

config = Config()
config.bind = [f"fd://{listener.detach()}"]
config.loglevel = "ERROR"
print(endpoint, flush=True)
asyncio.run(serve(app, config))
