"""The functions under test, and the template: SAM's example, a second system, and these functions.

CloudFormation itself applies SAM's transform, so the SAM CLI is not needed. Files that a template refers to by a path
are uploaded, and their addresses replace the paths.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inputs import zipped
from template import read

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "infra" / "sam" / "example" / "template.yaml"
FUNCTIONS = Path(__file__).resolve().parent / "functions"

ATTEMPTS_MAX = 3
# Longer than the whole run.
SLOW = "20m"

# Backoffs are short, so that the run is fast.
BACKOFFS = {"BASE_BACKOFF": "1s", "MAX_BACKOFF": "2s"}
# The settings of both systems.
SYSTEMS = {
    "Retry": {**BACKOFFS, "MAX_ATTEMPTS": str(ATTEMPTS_MAX)},
    # The limit is so low that waits are kept as delays.
    "Second": {**BACKOFFS, "MAX_ATTEMPTS": "30", "IN_FLIGHT_MAX": "1"},
}


@dataclass(frozen=True)
class Function:
    name: str
    # The system of the template that retries its failures. None for a function whose records the run examines itself.
    system: str | None
    code: str = "python"
    runtime: str = "python3.13"
    handler: str = "app.handler"
    # The settings of its own policy.
    policy: tuple[tuple[str, Any], ...] = ()
    # Lambda's default is Terminate.
    recursive_loop: str = "Allow"

    @property
    def folder(self) -> Path:
        return FUNCTIONS / self.code

    @property
    def properties(self) -> dict[str, Any]:
        """Its settings, as the API and CloudFormation name them."""
        return {"Runtime": self.runtime, "Handler": self.handler, "Timeout": 20}


WAITS = (("BASE_BACKOFF", SLOW), ("MAX_BACKOFF", SLOW))
MANY = (("MAX_ATTEMPTS", 100),)

TARGETS = (
    Function("Slow", "Retry", policy=WAITS),
    Function("Narrow", "Retry", policy=MANY),
    Function("Halted", "Retry", policy=MANY),
    Function("Held", "Retry"),
    Function("Paused", "Retry"),
    Function("Looping", "Retry", policy=MANY, recursive_loop="Terminate"),
    Function("Shell", "Retry", code="shell", runtime="provided.al2023", handler="bootstrap"),
    Function("Crowd", "Second"),
    Function("Doomed", "Second", policy=(("MAX_ATTEMPTS", 1),)),
    Function("Spied", None, recursive_loop="Terminate"),
    # Questions give these another destination, because that may be refused.
    Function("SpiedByTopic", None),
    Function("SpiedByBus", None),
    Function("SpiedByBucket", None),
    Function("SpiedByLetters", None),
)


def document_of_policies(system: str, names: dict[str, str]) -> str:
    own = [each for each in TARGETS if each.system == system and each.policy]
    return json.dumps({names[each.name]: dict(each.policy) for each in own})


def zipped_folder(folder: Path) -> bytes:
    """A zip of the files at the top level of a folder."""
    return zipped({path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()})


@dataclass(frozen=True)
class Parts:
    """What to deploy: the handler as a zip, and the architecture of all functions."""

    handler: bytes
    arch: str


# The parameters of both systems. A dashboard would cost more than everything else.
SETTINGS = {
    "Ledger": "true",
    "Register": "true",
    "OperatorPrincipals": {"Fn::GetAtt": ["Operator", "Arn"]},
    "RedrivePrincipals": {"Fn::GetAtt": ["Operator", "Arn"]},
    "OperatorRoles": {"Ref": "Operator"},
    "LogRetentionDays": "1",
    "Dashboard": "false",
}


@dataclass(frozen=True)
class Maker:
    """Makes the template. `upload` takes a name and bytes, and returns bucket, key and address."""

    upload: Callable[[str, bytes], tuple[str, str, str]]
    parts: Parts
    # The addresses of templates that were already uploaded. Both systems use the same ones.
    _nested: dict[Path, str] = field(default_factory=dict)

    def template(self) -> str:
        """Uploads everything that the template refers to, and the template. Returns its address."""
        example = read(EXAMPLE)
        resources = example["Resources"]
        for system, own in SYSTEMS.items():
            self._add_system(resources, system, own)
        # CloudWatch evaluates the alarm once a minute.
        resources["Retry"]["Properties"]["Parameters"]["EventsGivenUpTrigger"] = "above 0 in 1 of 1 periods of 60 s"
        resources["OrdersAlarms"]["Properties"]["Parameters"]["Ledger"] = "true"
        self._add_functions(resources)
        return self._uploaded(example, EXAMPLE.parent)

    def _add_system(self, resources: dict[str, Any], name: str, own: dict[str, str]) -> None:
        """Completes the example's system, or adds another one, with the functions that it retries."""
        attached = [each for each in TARGETS if each.system == name]
        policies = document_of_policies(name, {each.name: f"${{{each.name}}}" for each in attached})
        arns = [{"Fn::GetAtt": [each.name, "Arn"]} for each in attached]
        roles = [{"Fn::GetAtt": ["TargetsRole", "Arn"]}]
        if name == "Retry":
            arns.append({"Fn::GetAtt": ["Orders", "Arn"]})
            roles.append({"Fn::GetAtt": ["OrdersRole", "Arn"]})
        system = resources.setdefault(
            name,
            {"Type": "AWS::Serverless::Application", "Properties": {"Location": "../template.yaml", "Parameters": {}}},
        )
        system["Properties"]["Parameters"] |= {
            **SETTINGS,
            **{name.title().replace("_", ""): value for name, value in own.items()},
            "TargetFunctions": {"Fn::Join": [",", arns]},
            "TargetRoles": {"Fn::Join": [",", roles]},
            "Policies": {"Fn::Sub": policies},
        }

    def _add_functions(self, resources: dict[str, Any]) -> None:
        made = {
            code: self.upload(f"{code}.zip", zipped_folder(folder))
            for code, folder in {each.code: each.folder for each in TARGETS}.items()
        }
        resources |= read(Path(__file__).with_name("resources.yaml"))["Resources"]
        queues = {
            None: {"Fn::GetAtt": ["Spy", "Arn"]},
            **{system: {"Fn::GetAtt": [system, "Outputs.RetryQueueArn"]} for system in SYSTEMS},
        }
        dead_letters = {"Fn::GetAtt": ["Second", "Outputs.DeadLetterQueueArn"]}
        redrive = resources["OperatorRedrive"]["Properties"]["PolicyDocument"]["Statement"]
        for statement, others in zip(redrive, ([dead_letters], [queues["Second"]]), strict=True):
            statement["Resource"] = [statement["Resource"], *others]
        for each in TARGETS:
            bucket, key, _ = made[each.code]
            properties = {
                **each.properties,
                "Code": {"S3Bucket": bucket, "S3Key": key},
                "Architectures": [self.parts.arch],
                "Role": {"Fn::GetAtt": ["TargetsRole", "Arn"]},
                "LoggingConfig": {"LogGroup": {"Ref": "TargetsLog"}},
                "RecursiveLoop": each.recursive_loop,
            }
            resources[each.name] = {"Type": "AWS::Lambda::Function", "Properties": properties}
            resources[f"{each.name}EventInvokeConfig"] = {
                "Type": "AWS::Lambda::EventInvokeConfig",
                "DependsOn": "TargetsFailures",
                "Properties": {
                    "FunctionName": {"Ref": each.name},
                    "Qualifier": "$LATEST",
                    "MaximumRetryAttempts": 0,
                    "DestinationConfig": {"OnFailure": {"Destination": queues[each.system]}},
                },
            }

    def _uploaded(self, document: dict[str, Any], folder: Path) -> str:
        """Uploads a template of this folder, and the files that it refers to."""
        for name, resource in document["Resources"].items():
            properties = resource.get("Properties", {})
            if "Architectures" in properties:
                properties["Architectures"] = [self.parts.arch]
            if resource["Type"] == "AWS::Serverless::Application":
                nested = (folder / properties["Location"]).resolve()
                if nested not in self._nested:
                    self._nested[nested] = self._uploaded(read(nested), nested.parent)
                properties["Location"] = self._nested[nested]
            elif name == "Handler":
                bucket, key, _ = self.upload("handler.zip", self.parts.handler)
                properties["CodeUri"] = f"s3://{bucket}/{key}"
            elif "CodeUri" in properties:
                bucket, key, _ = self.upload(f"{name}.zip", zipped_folder(folder / properties["CodeUri"]))
                properties["CodeUri"] = f"s3://{bucket}/{key}"
        content = json.dumps(document).encode()
        return self.upload(f"{folder.name}-{len(content)}.json", content)[2]
