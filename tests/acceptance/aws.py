"""The account of the caller's credentials, or an emulator of one, and what a run deploys there as one stack.

All names begin with the run's, so removal needs no record of what was made: a run that was killed is removed as well.
"""

import functools
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

sys.path += [str(Path(__file__).resolve().parents[1] / part) for part in ("conformance", "deployment")]
sys.path.append(str(Path(__file__).resolve().parents[2] / "infra" / "cost"))

from endpoints import ACCOUNT as LOCAL_ACCOUNT
from endpoints import queue_arn
from maker import Maker, Parts
from stack import Deployed, all_resources
from template import NESTED

DENIED = re.compile(r"not authorized to perform: ([\w-]+:\w+)")

# Even a call that hangs must end, so that Ctrl-C can remove everything.
CONFIG = Config(connect_timeout=10, read_timeout=60, max_pool_connections=64, retries={"mode": "standard"})


class Refused(Exception):
    """The reason why the run can't go on, as a text for a person."""


class Stopped(Exception):
    """A signal has asked the run to end."""


@dataclass
class Account:
    """An account in a region. Has the same methods as the endpoint of an emulator in the tests.

    Raises:
        ClientError: if the credentials are no good.
        BotoCoreError: if there are none.
    """

    url: str | None = None
    # The name of the emulator, or None on AWS.
    emulator: str | None = None
    # The number of calls to each service.
    calls: Counter[str] = field(default_factory=Counter)
    # The trace headers to send, by the payloads of invocations.
    traces: dict[bytes, str] = field(default_factory=dict)
    _clients: dict[tuple[str | None, ...], Any] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.session = boto3.Session()
        if self.session.region_name is None:
            raise Refused("expected a region in AWS_REGION or in the AWS configuration, got none")
        self.region = self.session.region_name
        # The local cloud has a single account and no STS.
        is_local = self.emulator == "local"
        self.id = LOCAL_ACCOUNT if is_local else self.client("sts").get_caller_identity()["Account"]

    def client(
        self, service: str, access_key: str | None = None, secret: str | None = None, token: str | None = None
    ) -> Any:
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
                client.meta.events.register("before-call.lambda.Invoke", self._trace)
                self._clients[key] = client
            return self._clients[key]

    def _trace(self, params: dict[str, Any], **_: Any) -> None:
        if header := self.traces.get(params["body"]):
            params["headers"]["X-Amzn-Trace-Id"] = header

    def environment(self) -> dict[str, str]:
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


TAG = "comeback:acceptance"

# Lambda's error when a function is created in a region without arm64. No call reveals that earlier.
NO_ARM64 = re.compile(r'Architecture "?arm64"? is not supported')

# Longer than CloudFormation takes.
DEPLOY_SECONDS = 900
REMOVE_SECONDS = 1200


@dataclass
class Stack:
    """The stack of a run, and the bucket that its code comes from."""

    account: Account
    name: str
    # Set by a signal. Calls are never interrupted, so the run knows what exists.
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def bucket(self) -> str:
        """The name of the bucket. It contains the account, so no other account has one of that name."""
        return f"{self.name}-{self.account.id}-{self.account.region}"

    @property
    def interval(self) -> float:
        """The polling interval in seconds. AWS throttles callers who poll more often."""
        return 1 if self.account.emulator else 3

    def check_stop(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def status(self) -> str | None:
        described = self.described()
        return described["StackStatus"] if described else None

    def described(self) -> dict[str, Any] | None:
        try:
            (stack,) = self.account.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return None if stack["StackStatus"] == "DELETE_COMPLETE" else stack

    def deploy(self, parts: Parts) -> None:
        self.make_bucket()
        self.make(Maker(self.upload, parts).template())

    def system(self, name: str, target: str) -> Deployed:
        """One of the two systems, with one of its functions."""
        names = self.names
        arn = queue_arn(self.account.client("sqs"), names[f"{name}/RetryQueue"])
        return Deployed(self.account, names[target], names[f"{name}/Handler"], arn, names["Operator"])

    @property
    def logged(self) -> tuple[str, ...]:
        """One function for each log group of the functions under test."""
        return ("Orders", "Slow")

    def refuse_if_there(self) -> None:
        if (status := self.status()) is not None:
            raise Refused(f"there is a stack {self.name} already: {status}. Nothing was changed")
        if self._has_bucket():
            raise Refused(f"there is a bucket {self.bucket} already; scripts/acceptance --clean {self.name} removes it")

    def upload(self, key: str, content: bytes) -> tuple[str, str, str]:
        """Uploads a file. Returns bucket, key and address."""
        self.check_stop()
        s3 = self.account.client("s3")
        s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return self.bucket, key, f"{s3.meta.endpoint_url.rstrip('/')}/{self.bucket}/{key}"

    def make_bucket(self) -> None:
        self.check_stop()
        s3, region = self.account.client("s3"), self.account.region
        # S3 refuses the name of this region as a location.
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=self.bucket, **where)
        s3.put_bucket_tagging(Bucket=self.bucket, Tagging={"TagSet": [{"Key": TAG, "Value": self.name}]})

    def make(self, template_url: str) -> None:
        """Makes the stack, and waits until it is there, or fails with CloudFormation's reasons."""
        self.check_stop()
        self.account.client("cloudformation").create_stack(
            StackName=self.name,
            TemplateURL=template_url,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            # The run removes it nevertheless, after it has read the events.
            OnFailure="DO_NOTHING",
            Tags=[{"Key": TAG, "Value": self.name}],
        )
        deadline = time.monotonic() + DEPLOY_SECONDS
        while (status := self.status()) == "CREATE_IN_PROGRESS":
            if time.monotonic() > deadline:
                raise Refused(f"expected the stack within {DEPLOY_SECONDS} s, got {status}")
            self.stop.wait(self.interval)
            self.check_stop()
        if status != "CREATE_COMPLETE":
            reasons = list(self._reasons())
            if any(NO_ARM64.search(reason) for reason in reasons):
                reasons.append(
                    f"Lambda has no arm64 in {self.account.region}: pass --arch x86_64, or use another region"
                )
            raise Refused("\n".join([f"the stack is {status}:", *reasons]))

    def _reasons(self) -> Iterator[str]:
        cloudformation = self.account.client("cloudformation")
        nested = (each for each in all_resources(cloudformation, self.name) if each["ResourceType"] == NESTED)
        stacks = [self.name, *filter(None, (each.get("PhysicalResourceId") for each in nested))]
        for stack in stacks:
            for event in cloudformation.describe_stack_events(StackName=stack)["StackEvents"]:
                reason = event.get("ResourceStatusReason", "")
                if event["ResourceStatus"].endswith("_FAILED") and "cancelled" not in reason:
                    yield f"{event['LogicalResourceId']}: {reason}"

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The physical names of all resources by their logical names, such as `Orders` and `Retry/Handler`."""
        cloudformation = self.account.client("cloudformation")
        found = {}
        for each in all_resources(cloudformation, self.name):
            if each["ResourceType"] == NESTED:
                for inner in all_resources(cloudformation, each["PhysicalResourceId"]):
                    found[f"{each['LogicalResourceId']}/{inner['LogicalResourceId']}"] = inner["PhysicalResourceId"]
            found.setdefault(each["LogicalResourceId"], each["PhysicalResourceId"])
        return found

    def remove(self) -> bool:
        """Removes everything with the run's name. Returns whether there was anything. Ignores signals.

        Raises:
            Refused: if something can't be removed, or is not of a run.
        """
        is_there = self._remove_stack()
        is_there |= self._remove_bucket()
        return self._remove_logs() or is_there

    def _remove_stack(self) -> bool:
        if (stack := self.described()) is None:
            return False
        if {"Key": TAG, "Value": self.name} not in stack.get("Tags", []):
            raise Refused(f"the stack {self.name} has no tag {TAG}={self.name}, so no run has made it")
        cloudformation = self.account.client("cloudformation")
        cloudformation.delete_stack(StackName=self.name)
        deadline = time.monotonic() + REMOVE_SECONDS
        while (status := self.status()) is not None:
            if status == "DELETE_FAILED" or time.monotonic() > deadline:
                raise Refused("\n".join([f"the stack is {status}:", *self._reasons()]))
            # Not `stop.wait`, because the signal that asked for the removal has already set `stop`.
            time.sleep(self.interval)
        return True

    def _has_bucket(self) -> bool:
        return any(each["Name"] == self.bucket for each in self.account.client("s3").list_buckets()["Buckets"])

    def _remove_bucket(self) -> bool:
        if not self._has_bucket():
            return False
        s3 = self.account.client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            for each in page.get("Contents", []):
                s3.delete_object(Bucket=self.bucket, Key=each["Key"])
        s3.delete_bucket(Bucket=self.bucket)
        return True

    def _remove_logs(self) -> bool:
        """Removes log groups that Lambda made again, for functions that still ran after their group was deleted."""
        logs = self.account.client("logs")
        is_there = False
        for prefix in (f"{self.name}-", f"/aws/lambda/{self.name}-"):
            for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
                for group in page["logGroups"]:
                    logs.delete_log_group(logGroupName=group["logGroupName"])
                    is_there = True
        return is_there
