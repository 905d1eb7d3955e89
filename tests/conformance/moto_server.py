"""moto's server on a free port of loopback; prints its endpoint, as `comeback-local` does."""

import logging
import os

# One account for all: answers are compared to the letter, ARNs too. moto reads it when imported.
os.environ["MOTO_ACCOUNT_ID"] = "000000000000"

from lifeline import end_with_starter
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

# Neither a line for every request nor a traceback for every wrong one: a 500 tells enough.
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

end_with_starter()
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
