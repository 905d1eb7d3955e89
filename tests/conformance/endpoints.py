"""Starts each implementation as a process on a free port of loopback. A server ends with the test that started it."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import boto3
import models
from botocore.config import Config

REGION = "us-east-1"
ACCOUNT = "000000000000"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/conformance"

# The access key of clients with all permissions. It is also their secret key.
ACCESS_KEY = "local"

# Longer than any answer takes. The longest long poll of SQS is 20 s.
PATIENCE_SECONDS = 60

# Cases include invalid requests, so clients don't validate them, and they send each request only once.
CONFIG = Config(
    parameter_validation=False,
    read_timeout=PATIENCE_SECONDS,
    retries={"total_max_attempts": 1},
    max_pool_connections=32,
)


@dataclass(frozen=True)
class Endpoint:
    name: str
    url: str
    # What is wrong, according to AWS's models, with the local cloud's answers and with the requests of our programs.
    faults: Counter[str] = field(default_factory=Counter)

    def client(
        self, service: str, access_key: str = ACCESS_KEY, secret: str = ACCESS_KEY, token: str | None = None
    ) -> Any:
        client = boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=CONFIG,
        )
        if self.name == "local" and service in models.MODELS:
            client.meta.events.register("before-parse", self._look)
        return client

    def _look(self, response_dict: dict[str, Any], operation_model: Any, **_: Any) -> None:
        headers = {name.lower(): value for name, value in response_dict["headers"].items()}
        self.faults.update(
            models.faults_of_answer(operation_model, response_dict["status_code"], headers, response_dict["body"])
        )

    def environment(self) -> dict[str, str]:
        """The variables for a program that uses this endpoint with all permissions."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        }


def waiting_count(sqs: Any, queue_url: str) -> int:
    """The number of messages in a queue: visible, in flight and delayed."""
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    return sum(map(int, sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"].values()))


def queue_arn(sqs: Any, queue_url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


@contextmanager
def local(
    program: Path, settings: Mapping[str, str] = MappingProxyType({}), arguments: Sequence[str] = (), ready: str = ""
) -> Iterator[Endpoint]:
    """Runs the local cloud. It is ready when it prints this text, or else when it prints its endpoint."""
    with _started("local", [str(program), *arguments], settings, ready) as endpoint:
        yield endpoint
        if endpoint.faults:
            raise ValueError("\n".join(f"{fault} ({count} times)" for fault, count in endpoint.faults.items()))


@contextmanager
def between(endpoint: Endpoint, seen: set[models.Permission]) -> Iterator[str]:
    """The URL of a server that passes all requests on, checks them and their answers, and notes what they need."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = HTTPConnection(endpoint.url.removeprefix("http://"), timeout=PATIENCE_SECONDS)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            response = connection.getresponse()
            answer = response.read()
            headers, told = (
                {name.lower(): value for name, value in each.items()} for each in (self.headers, response.headers)
            )
            try:
                operation = models.operation(self.command, self.path, headers)
                if operation:
                    seen.add(models.permission(*operation, body))
                    endpoint.faults.update(models.faults_of_request(*operation, headers, body))
                    endpoint.faults.update(models.faults_of_answer(operation[0], response.status, told, answer))
            except Exception as error:
                endpoint.faults.update([f"{self.command} {self.path} {headers.get('x-amz-target')}: {error!r}"])
            # A client that has given up, or was killed, wants no answer.
            with suppress(ConnectionError):
                self.send_response_only(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = pass_on

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def moto() -> Iterator[Endpoint]:
    """Runs moto, and creates the role that functions need."""
    server = Path(__file__).with_name("moto_server.py")
    with _started("moto", [sys.executable, str(server)]) as endpoint:
        endpoint.client("iam").create_role(RoleName=ROLE.rsplit("/", 1)[-1], AssumeRolePolicyDocument="{}")
        yield endpoint


@contextmanager
def ministack(*, with_iam: bool = False, log_level: str = "ERROR") -> Iterator[Endpoint]:
    """Runs ministack. With IAM, functions have only their roles' permissions; `ACCESS_KEY` has all permissions."""
    server = Path(__file__).with_name("ministack_server.py")
    iam = {"AUTH": "true", "AWS_ACCESS_KEY_ID": ACCESS_KEY} if with_iam else {}
    with _started("ministack", [sys.executable, str(server)], {**iam, "LOG_LEVEL": log_level}) as endpoint:
        yield endpoint


@contextmanager
def localstack(python: str = sys.executable, package: str = "localstack") -> Iterator[Endpoint]:
    """Runs LocalStack or its fork `localemu`, which `python` has, and creates the role that functions need."""
    server = Path(__file__).with_name("localstack_server.py")
    with _started(package, [python, str(server), package]) as endpoint:
        # LocalEmu refuses a role that Lambda may not assume.
        trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        iam, role = endpoint.client("iam"), ROLE.rsplit("/", 1)[-1]
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=document)
        anything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [anything]})
        iam.put_role_policy(RoleName=role, PolicyName="anything", PolicyDocument=policy)
        yield endpoint


@contextmanager
def _started(
    name: str, command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({}), ready: str = ""
) -> Iterator[Endpoint]:
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        environment = {"PATH": os.environ["PATH"], "TMPDIR": folder, **settings}
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        reader = Thread(target=process.stdout.read, daemon=True)
        try:
            found = None
            for line in process.stdout:
                found = found or re.search(r"http://127\.0\.0\.1:\d+", line)
                if found and ready in line:
                    break
            else:
                raise RuntimeError(f"expected {name} to print its endpoint, it exited instead")
            # Read all other output, so that the pipe never fills up.
            reader.start()
            yield Endpoint(name, found[0])
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            if reader.ident:
                reader.join(PATIENCE_SECONDS)
            process.stdin.close()
            process.stdout.close()


def end_with_starter() -> None:
    """Ends this process when its standard input is closed, which also happens when the parent process ends."""

    def wait() -> None:
        # Not by `sys.stdin`, because Python needs its lock at exit.
        while os.read(0, 1024):
            pass
        os._exit(0)

    Thread(target=wait, daemon=True).start()
