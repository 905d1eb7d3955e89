"""Runs moto on a free port of loopback, and prints its endpoint as `comeback-local` does."""

import logging
import os
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

# The local cloud's account, so that ARNs in answers are equal. moto reads the variable when it is imported.
os.environ["MOTO_ACCOUNT_ID"] = "000000000000"

from endpoints import end_with_starter
from moto.iam.access_control import IAMRequestBase
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

# Logs neither requests nor tracebacks of failed ones: the status 500 in an answer is enough.
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

# moto checks signatures if it enforces policies, but computes them wrongly for Lambda's requests. The key is enough.
IAMRequestBase.check_signature = lambda _: None

MOTO = DomainDispatcherApplication(create_backend_app)
ONE_AT_A_TIME = Lock()


def answer(request: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
    """Answers one request at a time, because moto fails if a queue is made while it looks through all of them."""
    # These may wait for messages.
    if request.get("HTTP_X_AMZ_TARGET", "").endswith("ReceiveMessage"):
        return MOTO(request, begin)
    with ONE_AT_A_TIME:
        return MOTO(request, begin)


end_with_starter()
server = make_server("127.0.0.1", 0, answer, threaded=True)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
