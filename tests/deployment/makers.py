"""CDK, SAM and Terraform as makers of the same systems: each takes options by their names in Terraform, and attaches a
function.
"""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import commands
import sam
import terraform
from system import TARGET, System
from template import PSEUDO_PARAMETERS, Template

Options = Mapping[str, Any]

# The attached function, whose log group is Lambda's default, and a queue.
FUNCTION = {"arn": sam.ORDERS, "role_arn": "arn:aws:iam::111111111111:role/orders"}
QUEUE = {
    "arn": f"arn:aws:sqs:{sam.HOME}:imports",
    "url": "https://sqs.us-east-1.amazonaws.com/111111111111/imports",
}


def synthesized(systems: Mapping[str, Options]) -> dict[str, Any]:
    """CDK's templates of these systems, or the message of the error. Needs the output of tests/deployment/run-cdk."""
    where = {"account": PSEUDO_PARAMETERS["AWS::AccountId"], "region": PSEUDO_PARAMETERS["AWS::Region"]}
    asked = json.dumps({**where, "function": FUNCTION, "systems": systems})
    program = TARGET / "cdk/checkout/tests/deployment/systems.js"
    return json.loads(
        subprocess.run(["node", program], input=asked, stdout=subprocess.PIPE, text=True, check=True).stdout
    )


def by_cdk(systems: Mapping[str, Options]) -> dict[str, System]:
    made = synthesized(systems)
    refuse_none({name: said for name, said in made.items() if isinstance(said, str)})
    return {name: System(list(Template(document).resources())) for name, document in made.items()}


def template(options: Options) -> Template:
    """SAM's template with these options."""
    needed = {
        "TargetFunctions": FUNCTION["arn"],
        "TargetRoles": FUNCTION["role_arn"],
        "TargetLogGroups": sam.LOG_GROUP,
    }
    return sam.transformed(sam.SYSTEM, needed | parameters(options))


def by_sam(systems: Mapping[str, Options]) -> dict[str, System]:
    made = {name: template(options) for name, options in systems.items()}
    refuse_none({name: said for name, each in made.items() if (said := each.refusals())})
    return {name: System(list(each.resources())) for name, each in made.items()}


def refuse_none(refused: Mapping[str, Any]) -> None:
    if refused:
        raise ValueError(f"expected all systems to be made, got refusals {refused}")


def parameters(options: Options) -> dict[str, str]:
    """The parameters of SAM's template for options."""
    given: dict[str, str] = {}
    for option, value in options.items():
        match option, value:
            case "pollers", {"maximum": most}:
                given["MaxPollers"] = str(most)
            case "records_bucket", _:
                given |= {"RecordsBucketName": value.get("name", ""), "RecordsKeyArn": value.get("kms_key_arn", "")}
            case "rules", {}:
                given["SourceRules"] = ",".join(each["rule"]["arn"] for each in value.values())
            case "schedules", {}:
                roles = [target["role_arn"] for each in value.values() for target in each["schedule"]["target"]]
                given["ScheduleRoles"] = ",".join(roles)
            case "streams", {}:
                given["Streams"] = "true"
            case "functions", {}:
                given |= {"TargetFunctions": "", "SourceQueues": QUEUE["arn"]}
            case _, list():
                given[parameter(option)] = ",".join(value)
            case _, bool():
                given[parameter(option)] = str(value).lower()
            case _:
                given[parameter(option)] = str(value)
    if principals := options.get("operator_principals"):
        given["OperatorRoles"] = ",".join(arn.rpartition("/")[2] for arn in principals if ":role/" in arn)
    return given


def parameter(option: str) -> str:
    return sam.parameter(option.replace("kms_", ""))


def by_terraform(systems: Mapping[str, Options]) -> dict[str, System]:
    return {name: System(made) for name, made in terraform.made(systems, FUNCTION).items()}


MAKERS = {"CDK": by_cdk, "SAM": by_sam, "Terraform": by_terraform}
if commands.terraform_plugins() is None:
    print("The systems that Terraform makes are left out, because Terraform is not installed")
    del MAKERS["Terraform"]
