"""Runs moto on a free port of loopback, and prints its endpoint as `comeback-local` does."""

import logging
import os

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

end_with_starter()
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
