"""A deployed stack, as seen through CloudFormation and the services themselves."""

import functools
import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from endpoints import Endpoint, waiting_count
from template import NESTED
from template import listed as in_list

# Permissions of the handler's role with which AWS's services receive, log, use keys, record traces and join a VPC.
# ministack does without them.
OF_SERVICES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "logs:", "kms:", "xray:", "ec2:")

EVERYTHING_WITH_QUEUES_AND_BUCKETS = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["sqs:*", "s3:*"], "Resource": "*"}]}
)

BUCKET = "arn:aws:s3:::"


@dataclass(frozen=True)
class Deployed:
    """A deployed example: a target and its retry system."""

    endpoint: Endpoint
    target: str
    handler: str
    retry_queue_arn: str
    # The principal that may redrive dead letters and operate the examples.
    operator: str

    def invoke(self, payload: dict[str, Any]) -> None:
        answer = self.endpoint.client("lambda").invoke(
            FunctionName=self.target, InvocationType="Event", Payload=json.dumps(payload)
        )
        assert answer["StatusCode"] == 202, answer

    @property
    def arn(self) -> str:
        """The target's ARN, as in failure records."""
        return f"{self.configuration(self.target)['FunctionArn']}:$LATEST"

    def configuration(self, function: str) -> dict[str, Any]:
        return self.endpoint.client("lambda").get_function_configuration(FunctionName=function)

    def variables(self) -> dict[str, str]:
        return self.configuration(self.handler)["Environment"]["Variables"]

    def log(self, function: str) -> list[str]:
        """All lines in a function's log group; none before its first run."""
        group = self.configuration(function)["LoggingConfig"]["LogGroup"]
        logs = self.endpoint.client("logs")
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return []
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        return [event["message"] for page in pages for event in page["events"]]

    def placed(self) -> list[dict[str, Any]]:
        """The orders that the target placed, according to its log."""
        return [json.loads(line) for line in self.log(self.target) if line.startswith("{")]

    def send_as_operator(self, queue: str, body: str, **attributes: str) -> None:
        self.operators_queues().send_message(
            QueueUrl=self.endpoint.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"],
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )

    def dead_letters(self) -> list[dict[str, Any]]:
        """Receives and deletes all dead letters."""
        received = self.operators_queues().receive_message(
            QueueUrl=self.variables()["DEAD_LETTER_QUEUE_URL"],
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            VisibilityTimeout=600,
            MessageAttributeNames=["All"],
        )
        return received.get("Messages", [])

    def claims(self) -> list[str]:
        """The states of all claims in the ledger. The ledger's items of targets have no state."""
        scan = self.endpoint.client("dynamodb").get_paginator("scan")
        pages = scan.paginate(TableName=self.variables()["LEDGER_TABLE"])
        return [claim["state"]["S"] for page in pages for claim in page["Items"] if "state" in claim]

    def stranger_operations(self) -> set[str]:
        """The operations on the queues and records that a stranger with all permissions of SQS and S3 can do."""
        iam = self.endpoint.client("iam")
        iam.create_user(UserName="stranger")
        iam.put_user_policy(UserName="stranger", PolicyName="queues", PolicyDocument=EVERYTHING_WITH_QUEUES_AND_BUCKETS)
        key = iam.create_access_key(UserName="stranger")["AccessKey"]
        return self.possible((key["AccessKeyId"], key["SecretAccessKey"]))

    def operations(self) -> set[str]:
        """The operations on the queues and records that the operator can do if it also has all permissions of both."""
        self.endpoint.client("iam").put_role_policy(
            RoleName=self.operator, PolicyName="queues", PolicyDocument=EVERYTHING_WITH_QUEUES_AND_BUCKETS
        )
        return self.possible(self.operators_key)

    def possible(self, key: Sequence[str]) -> set[str]:
        """The operations on the queues and records that are possible with this key."""
        queues = self.endpoint.client("sqs", *key)
        urls = {
            "dead letters": self.variables()["DEAD_LETTER_QUEUE_URL"],
            "failures": queues.get_queue_url(QueueName=self.retry_queue_name)["QueueUrl"],
        }
        calls = {
            # Nothing ever receives this message.
            "send_message": {"MessageBody": "forged", "DelaySeconds": 900},
            "receive_message": {},
            # Not the receipt handle of any message.
            "change_message_visibility": {"ReceiptHandle": "unknown", "VisibilityTimeout": 0},
            "purge_queue": {},
            "delete_queue": {},
        }
        on_queues = {
            f"{call}: {queue}"
            for queue, url in urls.items()
            for call, arguments in calls.items()
            if not _is_denied(getattr(queues, call), QueueUrl=url, **arguments)
        }
        if not self.bucket:
            return on_queues
        objects = self.endpoint.client("s3", *key)
        # Nothing is told of this object.
        record = {"Key": self.records()[0]}
        calls = {"put_object": {"Key": "forged", "Body": b""}, "get_object": record, "delete_object": record}
        return on_queues | {
            f"{call}: records"
            for call, arguments in calls.items()
            if not _is_denied(getattr(objects, call), Bucket=self.bucket, **arguments)
        }

    @property
    def bucket(self) -> str:
        """The bucket of failure records, if there is one."""
        return self.variables().get("RECORD_BUCKETS", "")

    def records(self) -> list[str]:
        """The keys of all failure records."""
        listed = self.endpoint.client("s3").list_objects_v2(Bucket=self.bucket)
        return [each["Key"] for each in listed.get("Contents", [])]

    def comeback(self, program: Path, *arguments: str, as_operator: bool = False) -> Any:
        """Runs a command of the program, with all permissions or the operator's. Returns the JSON that it prints."""
        environment = self.endpoint.environment()
        if as_operator:
            switched = self._operators_credentials
            environment["AWS_ACCESS_KEY_ID"] = switched["AccessKeyId"]
            environment["AWS_SECRET_ACCESS_KEY"] = switched["SecretAccessKey"]
            environment["AWS_SESSION_TOKEN"] = switched["SessionToken"]
        command = [program, *arguments, "--json"]
        # In a session of its own, so that Ctrl-C in a terminal does not interrupt it.
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, start_new_session=True
        )
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            raise ValueError(f"expected JSON of comeback {' '.join(arguments)}, got {done.stderr}") from None

    def operators_queues(self) -> Any:
        """A client with the operator's role."""
        return self.endpoint.client("sqs", *self.operators_key)

    @property
    def operators_key(self) -> tuple[str, str, str]:
        switched = self._operators_credentials
        return switched["AccessKeyId"], switched["SecretAccessKey"], switched["SessionToken"]

    @functools.cached_property
    def _operators_credentials(self) -> dict[str, str]:
        role = self.endpoint.client("iam").get_role(RoleName=self.operator)["Role"]["Arn"]
        return self.endpoint.client("sts").assume_role(RoleArn=role, RoleSessionName="person")["Credentials"]

    def unused_permissions(self) -> list[str]:
        """What the handler's role may do with a resource, and has not done."""
        iam = self.endpoint.client("iam")
        role = self.configuration(self.handler)["Role"].rsplit("/", 1)[-1]
        with urllib.request.urlopen(f"{self.endpoint.url}/allowed") as answer:
            used = [(action, on) for caller, action, on in json.load(answer) if f":assumed-role/{role}/" in caller]
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        policies = [iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names]
        statements = [statement for policy in policies for statement in policy["Statement"]]
        # The handler treats all retry queues alike, and the versions of a function like the function.
        mappings = self.endpoint.client("lambda").list_event_source_mappings(FunctionName=self.handler)
        retry_queues = {it["EventSourceArn"] for it in mappings["EventSourceMappings"]}

        def kind(on: str) -> str:
            return "a retry queue" if on in retry_queues else on.removesuffix(":*")

        used = [(action, kind(on)) for action, on in used]
        given = {
            (action, kind(on))
            for it in statements
            if it["Effect"] == "Allow"
            for action in in_list(it["Action"])
            for on in in_list(it["Resource"])
        }
        return sorted(
            f"{action} on {on}"
            for action, on in given
            if not action.startswith(OF_SERVICES)
            and not any(action == taken and fnmatchcase(to, f"{on}*") for taken, to in used)
        )

    @property
    def retry_queue_name(self) -> str:
        return self.retry_queue_arn.rsplit(":", 1)[-1]

    def waiting_count(self) -> int:
        sqs = self.endpoint.client("sqs")
        return waiting_count(sqs, sqs.get_queue_url(QueueName=self.retry_queue_name)["QueueUrl"])


def given_up(letter: dict[str, Any]) -> tuple[str, str, str]:
    """The reason of a dead letter, the number of its attempts and its body."""
    attributes = {name: each["StringValue"] for name, each in letter.get("MessageAttributes", {}).items()}
    return attributes.get("Reason", ""), attributes.get("Attempts", ""), letter["Body"]


def life_of_failing(attempts_max: int) -> tuple[list[str], dict[str, str]]:
    """What `comeback trace` prints about an event that always fails: its steps without waits, and what is next."""
    steps = ["failed", "retried"] * attempts_max + ["failed", "given_up"]
    return steps, {"state": "given_up", "reason": "max_attempts_exceeded"}


def find(endpoint: Endpoint, stack: str) -> list[Deployed]:
    functions = endpoint.client("lambda")
    resources = list(all_resources(endpoint.client("cloudformation"), stack))
    runtimes = {
        name: functions.get_function_configuration(FunctionName=name)["Runtime"]
        for name in _of(resources, "AWS::Lambda::Function")
    }
    (handler,) = (name for name, runtime in runtimes.items() if runtime.startswith("provided"))
    (operator,) = (name for name in _of(resources, "AWS::IAM::Role") if "Operator" in name)

    targets = sorted(name for name in runtimes if name != handler)
    return [Deployed(endpoint, target, handler, retry_queue(endpoint, target), operator) for target in targets]


def retry_queue(endpoint: Endpoint, target: str) -> str:
    """The ARN of the queue to which a function's failures go, or to which their bucket sends its notices."""
    config = endpoint.client("lambda").get_function_event_invoke_config(FunctionName=target, Qualifier="$LATEST")
    destination = config["DestinationConfig"]["OnFailure"]["Destination"]
    if not destination.startswith(BUCKET):
        return destination
    s3 = endpoint.client("s3")
    notices = s3.get_bucket_notification_configuration(Bucket=destination.removeprefix(BUCKET))["QueueConfigurations"]
    key = f"aws/lambda/async/{target}/2026/"
    (queue,) = (
        each["QueueArn"]
        for each in notices
        for rule in each["Filter"]["Key"]["FilterRules"]
        if key.startswith(rule["Value"])
    )
    return queue


def empty_buckets(endpoint: Endpoint) -> None:
    """Deletes all objects, as a user must before Terraform deletes a bucket."""
    s3 = endpoint.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for each in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", []):
            s3.delete_object(Bucket=bucket["Name"], Key=each["Key"])


def remove(endpoint: Endpoint, stack: str) -> list[str]:
    """Deletes a stack, and returns the functions, mappings and queues that are left.

    Doesn't use `sam delete`, which accepts templates in S3 only at AWS's own addresses.
    """
    cloudformation = endpoint.client("cloudformation")
    cloudformation.delete_stack(StackName=stack)
    cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    return listed(endpoint)


def listed(endpoint: Endpoint) -> list[str]:
    functions = endpoint.client("lambda")
    return [
        *(each["FunctionName"] for each in functions.list_functions()["Functions"]),
        *(each["UUID"] for each in functions.list_event_source_mappings()["EventSourceMappings"]),
        *endpoint.client("sqs").list_queues().get("QueueUrls", []),
    ]


def _is_denied(call: Callable[..., Any], **arguments: Any) -> bool:
    try:
        call(**arguments)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # Any other error means that the request itself was wrong.
        if code not in ("AccessDenied", "AccessDeniedException", "ReceiptHandleIsInvalid"):
            raise
        return code != "ReceiptHandleIsInvalid"
    return False


def _of(resources: list[dict[str, Any]], kind: str) -> list[str]:
    return [each["PhysicalResourceId"] for each in resources if each["ResourceType"] == kind]


def all_resources(cloudformation: Any, stack: str) -> Iterator[dict[str, Any]]:
    """The resources of a stack and of its nested stacks."""
    for resource in cloudformation.describe_stack_resources(StackName=stack)["StackResources"]:
        yield resource
        # A resource that could not be made has no name.
        if resource["ResourceType"] == NESTED and resource.get("PhysicalResourceId"):
            yield from all_resources(cloudformation, resource["PhysicalResourceId"])
