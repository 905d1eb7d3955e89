"""moto's server on a free port of loopback; prints its endpoint, as `comeback-local` does."""

import logging
import os

# One account for all: answers are compared to the letter, ARNs too. moto reads it when imported.
os.environ["MOTO_ACCOUNT_ID"] = "000000000000"

from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

# Neither a line for every request nor a traceback for every wrong one: a 500 tells enough.
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

server = make_server(
    "127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True
)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
