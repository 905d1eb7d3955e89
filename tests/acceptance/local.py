"""Deploys the functions by API calls into the local cloud, which has no CloudFormation and no IAM, and
LocalStack and its fork LocalEmu."""

import functools
import secrets
from typing import Any

from aws import Refused, Stack
from botocore.exceptions import ClientError
from endpoints import ROLE, queue_arn
from maker import EXAMPLE, SYSTEMS, TARGETS, Function, Parts, document_of_policies, zipped_folder
from stack import Deployed

EXAMPLE_FUNCTION = Function("Orders", "Retry")


class WithoutRoles(Deployed):
    """A system without an operator, in which each function has its own log group."""

    def operators_queues(self) -> Any:
        """A client with the caller's own credentials."""
        return self.endpoint.client("sqs")

    def comeback(self, program: Any, *arguments: str, as_operator: bool = False) -> Any:
        return super().comeback(program, *arguments)

    def log(self, function: str) -> list[str]:
        logs = self.endpoint.client("logs")
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{function}")
        try:
            return [event["message"] for page in pages for event in page["events"]]
        except logs.exceptions.ResourceNotFoundException:
            return []


class StackOfCalls(Stack):
    """The same deployment, made by API calls."""

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The physical names of functions, and the addresses of queues, by logical names."""
        return {}

    @functools.cached_property
    def _suffix(self) -> str:
        """A part of each name, as in CloudFormation, because the log of a function outlives the function."""
        return secrets.token_hex(3)

    def _named(self, name: str) -> str:
        return f"{self.name}-{name.replace('/', '-')}-{self._suffix}"

    @property
    def logged(self) -> tuple[str, ...]:
        """Each function has its own log group."""
        return tuple(name for name in self.names if name == "Orders" or name in {each.name for each in TARGETS})

    def system(self, name: str, target: str) -> Deployed:
        handler, queue = self.names[f"{name}/Handler"], self._arn(f"{name}/RetryQueue")
        return WithoutRoles(self.account, self.names[target], handler, queue, "")

    def refuse_if_there(self) -> None:
        if self._functions() or self._queues() or self._has_bucket():
            raise Refused(f"there are functions, queues or a bucket of {self.name} already. Nothing was changed")

    def deploy(self, parts: Parts) -> None:
        self.account.client("s3").create_bucket(Bucket=self.bucket)
        for queue in (
            "Spy",
            "Moved",
            "MovedBack",
            "Tried",
            "GivenUp",
            *(f"{system}/{kind}" for system in SYSTEMS for kind in ("DeadLetterQueue", "RetryQueue")),
        ):
            self._make_queue(queue)
        self._redrive("MovedBack", "Moved")
        self._redrive("Tried", "GivenUp", receives=1)
        for system in SYSTEMS:
            self._redrive(f"{system}/RetryQueue", f"{system}/DeadLetterQueue")
        for function in (EXAMPLE_FUNCTION, *TARGETS):
            self._make_target(function)
        for system, own in SYSTEMS.items():
            self._make_handler(system, own, parts)

    def _make_queue(self, name: str) -> None:
        self.check_stop()
        # Six times the handler's timeout, as in the templates.
        attributes = {"VisibilityTimeout": "180", "MessageRetentionPeriod": "1209600"}
        made = self.account.client("sqs").create_queue(QueueName=self._named(name), Attributes=attributes)
        self.names[name] = made["QueueUrl"]

    def _redrive(self, queue: str, dead_letters: str, receives: int = 1000) -> None:
        policy = f'{{"deadLetterTargetArn":"{self._arn(dead_letters)}","maxReceiveCount":{receives}}}'
        self.account.client("sqs").set_queue_attributes(
            QueueUrl=self.names[queue], Attributes={"RedrivePolicy": policy}
        )

    def _arn(self, queue: str) -> str:
        return queue_arn(self.account.client("sqs"), self.names[queue])

    def _make_function(self, name: str, code: bytes, **settings: Any) -> None:
        self.check_stop()
        self.names[name] = self._named(name)
        functions = self.account.client("lambda")
        functions.create_function(FunctionName=self.names[name], Role=ROLE, Code={"ZipFile": code}, **settings)

    def _make_target(self, function: Function) -> None:
        folder = EXAMPLE.parents[2] / "example" / "orders" if function is EXAMPLE_FUNCTION else function.folder
        self._make_function(function.name, zipped_folder(folder), **function.properties)
        functions, name = self.account.client("lambda"), self.names[function.name]
        queue = self._arn(f"{function.system}/RetryQueue" if function.system else "Spy")
        functions.put_function_event_invoke_config(
            FunctionName=name, MaximumRetryAttempts=0, DestinationConfig={"OnFailure": {"Destination": queue}}
        )
        functions.put_function_recursion_config(FunctionName=name, RecursiveLoop=function.recursive_loop)

    def _make_handler(self, system: str, own: dict[str, str], parts: Parts) -> None:
        variables = {
            "DEAD_LETTER_QUEUE_URL": self.names[f"{system}/DeadLetterQueue"],
            **own,
            "POLICIES": document_of_policies(system, self.names),
        }
        handler = f"{system}/Handler"
        self._make_function(
            handler,
            parts.handler,
            Runtime="provided.al2023",
            Handler="bootstrap",
            Timeout=30,
            Environment={"Variables": variables},
        )
        functions = self.account.client("lambda")
        functions.put_function_recursion_config(FunctionName=self.names[handler], RecursiveLoop="Allow")
        functions.create_event_source_mapping(
            FunctionName=self.names[handler],
            EventSourceArn=self._arn(f"{system}/RetryQueue"),
            BatchSize=10,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )

    def remove(self) -> bool:
        """Removes all functions, mappings, queues and buckets with the run's name."""
        functions, sqs = self.account.client("lambda"), self.account.client("sqs")
        found, queues = self._functions(), self._queues()
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            if mapping["FunctionArn"].rsplit(":", 1)[-1] in found:
                functions.delete_event_source_mapping(UUID=mapping["UUID"])
        for name in found:
            functions.delete_function(FunctionName=name)
        for url in queues:
            sqs.delete_queue(QueueUrl=url)
        return self._remove_bucket() or bool(found or queues)

    def _has_bucket(self) -> bool:
        """Asks for this bucket only, because the local cloud lists none."""
        try:
            self.account.client("s3").head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return True

    def _functions(self) -> list[str]:
        pages = self.account.client("lambda").get_paginator("list_functions").paginate()
        names = (each["FunctionName"] for page in pages for each in page["Functions"])
        return [name for name in names if name.startswith(f"{self.name}-")]

    def _queues(self) -> list[str]:
        return self.account.client("sqs").list_queues(QueueNamePrefix=f"{self.name}-").get("QueueUrls", [])
