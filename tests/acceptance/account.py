"""The account of the caller's credentials, or an emulator of one."""

import os
import re
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

sys.path += [str(Path(__file__).resolve().parents[1] / part) for part in ("conformance", "deployment")]
sys.path.append(str(Path(__file__).resolve().parents[2] / "infra" / "cost"))

from endpoints import ACCOUNT as LOCAL_ACCOUNT

DENIED = re.compile(r"not authorized to perform: ([\w-]+:\w+)")

# Even a call that hangs must end, so that Ctrl-C can remove everything.
CONFIG = Config(connect_timeout=10, read_timeout=60, max_pool_connections=64, retries={"mode": "standard"})


class Refused(Exception):
    """The reason why the run can't go on, as a text for a person."""


class Stopped(Exception):
    """A signal has asked the run to end."""


@dataclass
class Account:
    """An account in a region. Has the same methods as the endpoint of an emulator in the tests."""

    url: str | None = None
    # The name of the emulator, or None on AWS.
    emulator: str | None = None
    # The number of calls to each service.
    calls: Counter[str] = field(default_factory=Counter)
    _clients: dict[tuple[str | None, ...], Any] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.session = boto3.Session()
        if self.session.region_name is None:
            raise Refused("expected a region in AWS_REGION or in the AWS configuration, got none")
        self.region = self.session.region_name
        self.id = ""

    def identify(self) -> None:
        """Looks up the caller's identity.

        Raises:
            ClientError: if the credentials are no good.
            BotoCoreError: if there are none.
        """
        # The local cloud has a single account and no STS.
        is_local = self.emulator == "local"
        self.id = LOCAL_ACCOUNT if is_local else self.client("sts").get_caller_identity()["Account"]

    def client(
        self, service: str, access_key: str | None = None, secret: str | None = None, token: str | None = None
    ) -> Any:
        """A client for a service, with the caller's credentials or with the given ones."""
        key = (service, access_key, token)
        # Creating clients of a session is not safe between threads. Using them is.
        with self._making:
            if key not in self._clients:
                client = self.session.client(
                    service,
                    endpoint_url=self.url,
                    aws_access_key_id=access_key,
                    aws_secret_access_key=secret,
                    aws_session_token=token,
                    config=CONFIG,
                )
                client.meta.events.register("before-send", lambda **_: self.calls.update([service]))
                self._clients[key] = client
            return self._clients[key]

    def environment(self) -> dict[str, str]:
        """The variables with which a program uses the account."""
        return {
            **os.environ,
            "AWS_REGION": self.region,
            **({"AWS_ENDPOINT_URL": self.url} if self.url else {}),
        }


def said(error: Exception) -> str:
    """The error as a text for a person. If a permission is missing, it names the action."""
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
        text = error.response["Error"].get("Message", "")
        if "AccessDenied" in code or "Unauthorized" in code or "Forbidden" in code or code == "403":
            found = DENIED.search(text)
            return f"the caller may not {found[1] if found else error.operation_name}: {text or code}"
    return str(error)
