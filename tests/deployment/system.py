"""The system that a template makes, as facts to compare. Each part is named by its purpose, not by its logical id."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sam
from template import Resource, Template, listed

TARGET = Path(__file__).resolve().parents[2] / os.environ.get("CARGO_TARGET_DIR", "target")

# Properties that may differ: names, descriptions, code locations, and traces of the tool that made the template.
INCIDENTAL = {"Lambda::Function": {"Code", "Description", "Environment", "Role"}}

# A template may have any number of these. Policies are compared by their statements, topics, keys, rules and schedules
# belong to the environment, alarms are made from the same file, and dashboards are not compared.
UNCOUNTED = {
    "IAM::Policy",
    "IAM::ManagedPolicy",
    "SNS::Topic",
    "SNS::TopicPolicy",
    "KMS::Key",
    "Events::Rule",
    "Scheduler::Schedule",
    "CloudWatch::Alarm",
    "CloudWatch::Dashboard",
}

# The defaults of properties that a template leaves out.
DEFAULTS = {
    "Lambda::Function": {"TracingConfig.Mode = PassThrough"},
    "Lambda::EventSourceMapping": {"Enabled = true"},
    "SQS::Queue": {"SqsManagedSseEnabled = false"},
    "S3::Bucket": {"BucketEncryption.ServerSideEncryptionConfiguration[].BucketKeyEnabled = false"},
}

# The ARN of a part, which the part's name says as well.
ARN_OF_PART = re.compile(r"arn:aws:[a-z0-9]+:(?:us-east-1:111111111111|:111111111111|:):(?:[a-z-]+[:/])?(<[^>]+>)")


@dataclass(frozen=True)
class System:
    """The resources of a template, sorted by purpose."""

    resources: Sequence[Resource]

    def facts(self) -> set[str]:
        """Everything that must be equal in templates of the same system, one line each."""
        lines = {f"{part}: {fact}" for part, resource in self._parts().items() for fact in _facts_of(resource)}
        lines |= {f"the handler's environment: {fact}" for fact in self._environment()}
        for who in ("handler", "target", "operator"):
            lines |= {f"the {who}'s role: {fact}" for fact in self._permissions(who)}
        for which in ("retry queue", "dead-letter queue"):
            lines |= {f"the {which}'s policy: {fact}" for fact in self._queue_policy(which)}
        lines |= {
            f"the bucket's policy: {fact}" for each in self._of("S3::BucketPolicy") for fact in self._stated(each)
        }
        for role in self._others():
            lines |= {f"the role {role}: {fact}" for fact in self._attached(role)}
        counts = Counter(each.type for each in self.resources if each.type not in UNCOUNTED)
        lines |= {f"makes {count} {kind}" for kind, count in counts.items()}
        # CDK's bucket tells each queue of the records of its function, SAM's tells its only queue of all.
        lines = {self._with_parts_for_tokens(line).replace("async/<target>/", "async/") for line in lines}
        return {ARN_OF_PART.sub(r"\1", line) for line in lines}

    def alarms(self) -> dict[str, dict[str, Any]]:
        """The properties of the alarms, by their sections in the runbook. Tokens are replaced by the names of parts."""
        alarms = map(self._named, self._of("CloudWatch::Alarm"))
        return {alarm["AlarmDescription"].rpartition("#")[2]: alarm for alarm in alarms}

    def metric_filter(self) -> dict[str, Any]:
        return self._named(self._only("Logs::MetricFilter"))

    def widgets(self, kind: str) -> list[dict[str, Any]]:
        """The widgets of a kind, from above. Tokens are replaced by the names of parts."""
        body = self._with_parts_for_tokens(self._only("CloudWatch::Dashboard").properties["DashboardBody"])
        widgets = sorted(json.loads(body)["widgets"], key=lambda each: each["y"])
        return [each["properties"] for each in widgets if each["type"] == kind]

    def _parts(self) -> dict[str, Resource]:
        """The parts of the system, by purpose. Keys and topics belong to the environment, so they are only named."""
        retry_queue = self._only("SQS::Queue", lambda each: "RedrivePolicy" in each.properties)
        handler = self._only("Lambda::Function", lambda each: each.properties["Runtime"].startswith("provided"))
        parts = {
            "retry queue": retry_queue,
            "dead-letter queue": self._only("SQS::Queue", lambda each: each != retry_queue),
            "mapping": self._only("Lambda::EventSourceMapping"),
            "handler": handler,
            "handler's log": self._log_of(handler),
        }
        for name, kind in {
            "ledger": "DynamoDB::Table",
            "invoke config": "Lambda::EventInvokeConfig",
            "metric filter": "Logs::MetricFilter",
            "bucket": "S3::Bucket",
        }.items():
            if any(self._of(kind)):
                parts[name] = self._only(kind)
        targets = [each for each in self._of("Lambda::Function") if each != handler]
        if targets:
            (parts["target"],) = targets
            parts["target's log"] = self._log_of(parts["target"])
        return parts

    def _log_of(self, function: Resource) -> Resource:
        group = function.properties["LoggingConfig"]["LogGroup"]
        return self._only("Logs::LogGroup", lambda each: each.token == group)

    def _names(self) -> Iterator[tuple[str, str]]:
        """The tokens and the purposes that replace them in facts."""
        parts = self._parts()
        for part, resource in parts.items():
            yield resource.token, part
        if "bucket" in parts:
            # The bucket is also named without a reference, where it doesn't exist yet.
            yield parts["bucket"].properties["BucketName"], "bucket"
        for who in ("handler", "target", "operator"):
            if role := self._role(who):
                yield role.token, f"{who}'s role"
        for resource in self._of("KMS::Key"):
            yield resource.token, "key"
        for resource in self._of("SNS::Topic"):
            yield resource.token, "tickets" if "Tickets" in resource.token else "topic"

    def _named(self, resource: Resource) -> dict[str, Any]:
        return json.loads(self._with_parts_for_tokens(json.dumps(resource.properties)))

    def _with_parts_for_tokens(self, line: str) -> str:
        for token, name in self._names():
            line = line.replace(token, f"<{name}>")
        return line

    def _environment(self) -> Iterator[str]:
        variables = self._parts()["handler"].properties["Environment"]["Variables"]
        # For the handler, an empty variable counts as unset, and so does a flag that is false.
        said = {name: value for name, value in variables.items() if value not in ("", "false")}
        # Both variables limit the functions that records from a queue may name: CDK's per queue, SAM's for all queues.
        bound = json.loads(said.pop("QUEUE_TARGETS", "{}"))
        listed_for_all = said.pop("TARGET_FUNCTIONS", "").split(",")
        bound = bound or {self._parts()["retry queue"].token: listed_for_all}
        for queue, functions in bound.items():
            # It may be a name or an ARN.
            names = sorted(name.rsplit(":", 1)[-1] for name in functions)
            yield f"records from {queue} may name {', '.join(names)}"
        yield from (f"{name} = {_meaning(name, value)}" for name, value in said.items() if not _is_default(name, value))

    def _role(self, who: str) -> Resource | None:
        of_functions = [each.properties["Role"] for each in self._of("Lambda::Function")]
        others = [each for each in self._of("IAM::Role") if not any(arn.endswith(each.token) for arn in of_functions)]
        if who == "operator":
            return self._only("IAM::Role", others.__contains__) if others else None
        if who not in self._parts():
            return None
        arn = self._parts()[who].properties["Role"]
        return self._only("IAM::Role", lambda each: arn.endswith(each.token))

    def _permissions(self, who: str) -> Iterator[str]:
        role = self._role(who)
        if role is None:
            return
        yield from _permissions(role.properties["AssumeRolePolicyDocument"])
        yield f"bounded by {role.properties.get('PermissionsBoundary')}"
        yield from (f"managed policy {arn}" for arn in role.properties.get("ManagedPolicyArns", []))
        for policy in role.properties.get("Policies", []):
            yield from _permissions(policy["PolicyDocument"])
        yield from self._attached(role.token)

    def _policies(self) -> Iterator[dict[str, Any]]:
        return (each.properties for kind in ("IAM::Policy", "IAM::ManagedPolicy") for each in self._of(kind))

    def _attached(self, role: str) -> Iterator[str]:
        for policy in self._policies():
            if role in policy.get("Roles", []):
                yield from _permissions(policy["PolicyDocument"])

    def _others(self) -> set[str]:
        """The names of roles that are none of the template's, and get permissions here."""
        return {role for policy in self._policies() for role in policy.get("Roles", []) if "{" not in role}

    def _queue_policy(self, which: str) -> Iterator[str]:
        queue = self._parts()[which]
        for each in self._of("SQS::QueuePolicy"):
            if any(url.endswith(queue.token) for url in each.properties["Queues"]):
                yield from self._stated(each)

    def _stated(self, policy: Resource) -> Iterator[str]:
        # Named first, so that the order of principals doesn't depend on logical ids.
        return _permissions(self._named(policy)["PolicyDocument"])

    def _of(self, kind: str) -> Iterator[Resource]:
        return (each for each in self.resources if each.type == kind)

    def _only(self, kind: str, is_meant: Any = lambda _: True) -> Resource:
        found = [each for each in self._of(kind) if is_meant(each)]
        if len(found) != 1:
            raise ValueError(f"expected one {kind}, got {[each.token for each in found]}")
        return found[0]


def _facts_of(resource: Resource) -> Iterator[str]:
    for policy, value in {
        "DeletionPolicy": resource.at_deletion,
        "UpdateReplacePolicy": resource.at_replacement,
    }.items():
        # That is the default.
        if value != "Delete":
            yield f"{policy} = {value}"
    incidental = INCIDENTAL.get(resource.type, set())
    defaults = DEFAULTS.get(resource.type, set())
    said = {name: value for name, value in resource.properties.items() if name not in incidental | {"Tags"}}
    yield from _tags(resource.properties.get("Tags", []))
    yield from (fact for fact in _leaves(said) if fact not in defaults)


def _tags(tags: list[dict[str, str]]) -> Iterator[str]:
    """The tags by which programs find a part. The system's name may differ, and tools add tags of their own."""
    for tag in tags:
        if tag["Key"] == "comeback:system":
            yield "is tagged with its system"
        elif tag["Key"].startswith("comeback:"):
            yield f"{tag['Key']} = {tag['Value']}"


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    """Each value in a tree, with its path. Lists are unordered, and numbers become strings, as in parameters."""
    match value:
        case dict():
            for name, each in value.items():
                yield from _leaves(each, f"{path}.{name}" if path else name)
        case list():
            for each in value:
                yield from _leaves(each, f"{path}[]")
        case bool():
            yield f"{path} = {str(value).lower()}"
        case _:
            yield f"{path} = {value}"


LEAVES_OUT, OF_A_SERVICE = "ArnNotEquals aws:PrincipalArn", "BoolIfExists aws:PrincipalIsAWSService"


def _permissions(document: dict[str, Any]) -> Iterator[str]:
    """Each permission or denial of a policy, whatever the grouping into statements."""
    for statement in listed(document["Statement"]):
        condition = _condition(statement.get("Condition", {}))
        known = {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
        if unknown := statement.keys() - known:
            raise NotImplementedError(f"{sorted(unknown)} of a statement")
        for principal in _principals(statement.get("Principal")):
            for action in listed(statement["Action"]):
                for resource in listed(statement.get("Resource", [""])):
                    words = [statement["Effect"], principal, action, resource, condition]
                    yield " ".join(word for word in words if word)


def _condition(condition: dict[str, Any]) -> str:
    """A condition in words. One has words of its own: that of all denials that leave somebody out."""
    said = {
        f"{operator} {key}": ", ".join(sorted(set(map(str, listed(values)))))
        for operator, keys in condition.items()
        for key, values in keys.items()
    }
    if said.keys() == {LEAVES_OUT, OF_A_SERVICE} and said[OF_A_SERVICE] == "false":
        return f"but for {said[LEAVES_OUT]} and AWS's services"
    return f"if {' and '.join(f'{key} {values}' for key, values in sorted(said.items()))}" if said else ""


def _principals(principal: Any) -> list[str]:
    match principal:
        case None:
            return [""]
        case "*" | {"AWS": "*"}:
            return ["*"]
        case _:
            return [f"{kind} {one}" for kind, names in principal.items() for one in listed(names)]


SETTINGS = json.loads((sam.INFRA / "cdk/contract/settings.json").read_text())
DURATIONS = {name for name, it in SETTINGS.items() if it["type"] == "duration"}


def _is_default(variable: str, value: str) -> bool:
    """Whether the handler would take the same value, if it had none."""
    default = SETTINGS.get(variable, {}).get("default")
    return default is not None and _meaning(variable, value) == _meaning(variable, str(default))


def _meaning(variable: str, value: str) -> str:
    """The meaning of a variable's value that can be written in several ways."""
    if variable in DURATIONS:
        return f"{sam.seconds(value)} s"
    if variable == "POLICIES":
        policies = {
            function: {name: str(own) for name, own in values.items()} for function, values in json.loads(value).items()
        }
        return json.dumps(policies, sort_keys=True)
    return value


def systems(application: str, document: dict[str, Any]) -> dict[str, System]:
    """CDK's system, in an application of tests/deployment/run-cdk, and SAM's."""
    (path,) = (TARGET / "cdk" / application).glob("*.template.json")
    made = {
        "CDK": Template(json.loads(path.read_text())),
        "SAM": sam.transformed_document(document, sam.EXAMPLE.parent),
    }
    return {who: System(list(template.resources())) for who, template in made.items()}


EXAMPLES = systems("typescript", sam.read(sam.EXAMPLE))
HARDENED = systems("everything", sam.with_everything())
RECORDED = systems("recorded", sam.with_records(sam.with_everything()))
