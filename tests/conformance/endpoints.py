"""Starts each implementation as a process on a free port of loopback."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import boto3
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
    """A running implementation of SQS and Lambda."""

    name: str
    url: str

    def client(
        self, service: str, access_key: str = ACCESS_KEY, secret: str = ACCESS_KEY, token: str | None = None
    ) -> Any:
        """Makes a boto3 client for one of its services."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=CONFIG,
        )

    def environment(self) -> dict[str, str]:
        """The variables for a program that uses this endpoint with all permissions."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        }


@contextmanager
def local(program: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Endpoint]:
    """Runs the local cloud."""
    with _started("local", [str(program)], settings) as endpoint:
        yield endpoint


@contextmanager
def moto() -> Iterator[Endpoint]:
    """Runs moto, and creates the role that functions need."""
    server = Path(__file__).with_name("moto_server.py")
    with _started("moto", [sys.executable, str(server)]) as endpoint:
        role = ROLE.rsplit("/", 1)[-1]
        endpoint.client("iam").create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        yield endpoint


@contextmanager
def ministack(*, with_iam: bool = False, log_level: str = "ERROR") -> Iterator[Endpoint]:
    """Runs ministack. With IAM, functions have only their roles' permissions; `ACCESS_KEY` has all permissions."""
    server = Path(__file__).with_name("ministack_server.py")
    iam = {"AUTH": "true", "AWS_ACCESS_KEY_ID": ACCESS_KEY} if with_iam else {}
    with _started("ministack", [sys.executable, str(server)], {**iam, "LOG_LEVEL": log_level}) as endpoint:
        yield endpoint


@contextmanager
def _started(
    name: str, command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Endpoint]:
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        environment = {"PATH": os.environ["PATH"], "TMPDIR": folder, **settings}
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"expected {name} to print its endpoint, it exited instead")
            # Read all other output, so that the pipe never fills up.
            Thread(target=process.stdout.read, daemon=True).start()
            yield Endpoint(name, url)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
