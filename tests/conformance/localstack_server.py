"""Runs LocalStack or its fork LocalEmu on a free port of loopback, and prints its endpoint as `comeback-local` does.

    localstack_server.py localstack|localemu

LocalStack runs functions in Docker. Here, an executor of its plug-in interface starts them as processes and serves the
Runtime API to each. Functions in Python run with awslambdaric.

LocalStack's gateway listens on all interfaces whatever it is told, so it gets a socket that is bound to loopback.
"""

import importlib
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Thread
from typing import Any

HOST = "127.0.0.1"

# The fork has the same modules, and its own names for some of the variables.
PACKAGE = sys.argv[1]

listener = socket.create_server((HOST, 0))
port = listener.getsockname()[1]
folder = os.environ["TMPDIR"]
os.environ |= {
    "HOME": folder,
    f"{PACKAGE.upper()}_VOLUME_DIR": folder,
    f"{PACKAGE.upper()}_HOST": f"{HOST}:{port}",
    "GATEWAY_LISTEN": f"{HOST}:{port}",
    "DNS_ADDRESS": "0",
    # The URLs of queues have no domain below the address, which would not resolve.
    "SQS_ENDPOINT_STRATEGY": "path",
    "DISABLE_EVENTS": "1",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    # A new function is active at once, and an idle mapping looks into its queue every second.
    "LAMBDA_SYNCHRONOUS_CREATE": "1",
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "1",
}

from endpoints import end_with_starter
from twisted.internet import endpoints as twisted_endpoints


def module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


current, events = module("runtime.current"), module("runtime.events")
StatusErrorException = module("services.lambda_.invocation.executor_endpoint").StatusErrorException
lambda_models = module("services.lambda_.invocation.lambda_models")
DockerRuntimeExecutorPlugin = module("services.lambda_.invocation.plugins").DockerRuntimeExecutorPlugin
RuntimeExecutor = module("services.lambda_.invocation.runtime_executor").RuntimeExecutor

# Whether an initialization or an invocation has failed, and what it has returned.
Outcome = Future[tuple[bool, bytes]]


class RuntimeApi(BaseHTTPRequestHandler):
    """The Runtime API of one process."""

    protocol_version = "HTTP/1.1"
    server: "Process"

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        settle(self.server.initialization, has_failed=False, body=b"")
        headers, payload = self.server.invocations.get()
        self._answer(200, headers, payload)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        outcome = self.server.initialization if "/init/" in self.path else self.server.invocation
        settle(outcome, has_failed=not self.path.endswith("/response"), body=body)
        self._answer(202, {}, b"")

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def settle(outcome: Outcome, *, has_failed: bool, body: bytes) -> None:
    """Ends an initialization or an invocation, unless it has ended."""
    with suppress(InvalidStateError):
        outcome.set_result((has_failed, body))


def error(error_type: str, message: str) -> bytes:
    """What Lambda returns if a function could not return anything."""
    return json.dumps({"errorType": error_type, "errorMessage": message}).encode()


class Process(ThreadingHTTPServer):
    """A process of a function, which handles one invocation after another, and its Runtime API."""

    daemon_threads = True

    def __init__(self, version: Any, variables: dict[str, str]) -> None:
        super().__init__((HOST, 0), RuntimeApi)
        self.invocations: SimpleQueue[tuple[dict[str, str], bytes]] = SimpleQueue()
        self.initialization, self.invocation = Outcome(), Outcome()
        self.log, _ = tempfile.mkstemp()
        code = version.config.code.get_unzipped_code_location()
        is_python = version.config.runtime.startswith("python")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", version.config.handler] if is_python else [code / "bootstrap"],
            cwd=code,
            env={
                **variables,
                "AWS_LAMBDA_RUNTIME_API": f"{HOST}:{self.server_port}",
                "LAMBDA_TASK_ROOT": str(code),
                "PATH": os.environ["PATH"],
            },
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        Thread(target=self.serve_forever, daemon=True).start()
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        status = self.process.wait()
        for outcome in (self.initialization, self.invocation):
            settle(outcome, has_failed=True, body=error("Runtime.ExitError", f"Runtime exited with status {status}"))

    def invoke(self, headers: dict[str, str], payload: bytes, seconds: int) -> tuple[bool, bytes, str]:
        """Handles an invocation. Returns whether it failed, what it returned, and what the process printed."""
        logged_before = os.fstat(self.log).st_size
        self.invocation = Outcome()
        self.invocations.put((headers, payload))
        try:
            has_failed, body = self.invocation.result(seconds)
        except TimeoutError:
            self.stop()
            has_failed, body = True, error("Sandbox.Timedout", f"Error: Task timed out after {seconds}.00 seconds")
        size = os.fstat(self.log).st_size - logged_before
        return has_failed, body, os.pread(self.log, size, logged_before).decode(errors="replace")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.shutdown()
        self.server_close()


class ProcessExecutor(RuntimeExecutor):
    """An environment of a function. It starts another process if one has ended."""

    def start(self, env_vars: dict[str, Any]) -> None:
        """Starts a process and waits until it has initialized. LocalStack stops one that takes too long."""
        self.variables = {name: str(value) for name, value in env_vars.items()}
        self.process = Process(self.function_version, self.variables)
        has_failed, body = self.process.initialization.result()
        if has_failed:
            raise StatusErrorException("the initialization failed", payload=body)

    def stop(self) -> None:
        self.process.stop()

    def invoke(self, payload: dict[str, str], **_: Any) -> Any:
        if self.process.process.poll() is not None:
            self.start(self.variables)
        seconds, request_id = self.function_version.config.timeout, payload["invoke-id"]
        headers = {
            "Lambda-Runtime-Aws-Request-Id": request_id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + seconds) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": payload["invoked-function-arn"],
            "Lambda-Runtime-Trace-Id": payload["trace-id"],
            # awslambdaric crashes without it.
            "Content-Type": "application/json",
        }
        began = time.monotonic()
        has_failed, body, printed = self.process.invoke(headers, payload["payload"].encode(), seconds)
        took = f"{(time.monotonic() - began) * 1000:.2f} ms"
        version = self.function_version.id.qualifier
        logs = (
            f"START RequestId: {request_id} Version: {version}\n{printed}"
            f"END RequestId: {request_id}\nREPORT RequestId: {request_id}\tDuration: {took}\n"
        )
        return lambda_models.InvocationResult(request_id, body, has_failed, logs)

    def get_address(self) -> str:
        return HOST

    get_endpoint_from_executor = get_runtime_endpoint = get_address

    def get_logs(self) -> str:
        """Nothing: all logs belong to an invocation."""
        return ""

    @classmethod
    def prepare_version(cls, function_version: Any) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: Any) -> None:
        """Nothing: LocalStack removes the code itself."""


def tell() -> None:
    """Prints the endpoint once the services are there."""
    events.infra_ready.wait()
    print(f"http://{HOST}:{port}", flush=True)


end_with_starter()
logging.disable()
# LocalStack finds plug-ins in installed packages. Its only one loads this executor instead of its own.
DockerRuntimeExecutorPlugin.load = lambda *_: ProcessExecutor
twisted_endpoints.TCP4ServerEndpoint = lambda reactor, _: twisted_endpoints.AdoptedStreamServerEndpoint(
    reactor, listener.detach(), socket.AF_INET
)
Thread(target=tell, daemon=True).start()
current.initialize_runtime().run()
