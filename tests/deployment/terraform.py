"""The systems that infra/terraform makes, as the resources of templates, and what it refuses.

One test of Terraform's own makes all systems with a mocked provider, which needs no account, and knows every ARN.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import commands
from template import Resource, listed

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("terraform.toml").read_text())

# The most that version 5 of the provider takes. test_terraform.py has the sizes.
COMMON = {"max_message_size": 262144, "handler_zip": "main.tf.json"}


@contextmanager
def checkout() -> Iterator[Path]:
    """A folder with the module, and with another one, root, that calls it."""
    with tempfile.TemporaryDirectory(prefix="terraform-") as temporary:
        folder = Path(temporary)
        for part in ("infra/terraform", "infra/cdk/contract"):
            shutil.copytree(commands.ROOT / part, folder / part)
        (folder / "root/tests").mkdir(parents=True)
        yield folder


def made(systems: Mapping[str, Mapping[str, Any]], function: Mapping[str, str]) -> dict[str, list[Resource]]:
    """The resources of each system with these options and this function."""
    common = {**COMMON, "alarms": None, "dashboard": False}
    modules = {
        f"system_{nth}": {"source": "../infra/terraform", **common, "functions": {"orders": function}, **options}
        for nth, options in enumerate(systems.values())
    }
    partition = {"aws_partition": {"defaults": {"partition": "aws", "dns_suffix": "amazonaws.com"}}}
    overrides = [
        {"target": f"module.{name}.{part}", "values": values}
        for name in modules
        for part, values in TABLE["given"].items()
    ]
    test = {"mock_provider": {"aws": {"mock_data": partition, "override_resource": overrides}}, "run": {"all": {}}}
    with checkout() as folder:
        # Otherwise the provider of the root isn't the mocked one.
        needed = {"required_providers": {"aws": {"source": "hashicorp/aws"}}}
        (folder / "root/main.tf.json").write_text(json.dumps({"terraform": needed, "module": modules}, indent=1))
        (folder / "root/tests/all.tftest.json").write_text(json.dumps(test, indent=1))
        run(folder / "root", "init", "-backend=false", *(commands.terraform_plugins() or []))
        said = run(folder / "root", "test", "-json", "-verbose")
    (state,) = (json.loads(line)["test_state"] for line in said.splitlines() if '"type":"test_state"' in line)
    found = {each["address"]: each["resources"] for each in state["root_module"]["child_modules"]}
    return {name: list(resources(found[f"module.{own}"])) for name, own in zip(systems, modules, strict=True)}


def run(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Runs Terraform without the settings of the current user. Returns what it says."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["terraform", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != int(fails):
        told = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise ValueError(f"expected terraform {arguments[0]} to {'fail' if fails else 'pass'}, got {told}")
    return done.stdout + done.stderr


def resources(state: list[dict[str, Any]]) -> Iterator[Resource]:
    """The resources of a module as those of a template."""
    made: dict[str, Resource] = {}
    # What is a part of another resource in a template comes last.
    for each in sorted(state, key=lambda each: "of" in TABLE["type"].get(each["type"], {})):
        part = f"{each['type']}.{each['name']}"
        # The function itself is none of the module's.
        if each["mode"] == "data" or part == "aws_lambda_function_recursion_config.target":
            continue
        names = TABLE["type"][each["type"]]
        values = json.dumps(each["values"])
        for name, token in TABLE["named"].items():
            values = values.replace(name, token)
        properties = properties_of(json.loads(values), names)
        if part in TABLE["attached"]:
            properties["Roles"] = [TABLE["attached"][part]]
        if "of" in names:
            (whole,) = (it for it in made.values() if it.type == names["of"])
            whole.properties.update(properties)
        else:
            # Terraform deletes no bucket that has objects, unless it is told to.
            kept = "Retain" if each["type"] == "aws_s3_bucket" and not each["values"]["force_destroy"] else "Delete"
            token = next(iter(re.findall(r"{\w+}", json.dumps(TABLE["given"].get(part)))), f"{{{part}}}")
            made[each["address"]] = Resource(token, names["is"], properties, kept, kept)
    return iter(made.values())


def properties_of(values: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a template that a resource's attributes are."""
    properties: dict[str, Any] = {}
    for attribute, said in names.items():
        if attribute not in ("is", "of") and (found := values_at(values, attribute.split("."))):
            for name, _, value in (each.partition(" = ") for each in listed(said)):
                put(properties, name, [value] if value else found)
    if tags := values.get("tags"):
        properties["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    return properties


def values_at(value: Any, path: list[str]) -> list[Any]:
    """All values of an attribute. A block is a list of blocks."""
    match value, path:
        case ((None | ""), _):
            return []
        case list(), _:
            return [found for each in value for found in values_at(each, path)]
        case dict(), [name, *rest]:
            return values_at(value.get(name), rest)
        case str(), [] if value.startswith('{"'):
            return [json.loads(value)]
    return [value]


def put(properties: dict[str, Any], name: str, found: list[Any]) -> None:
    """Sets a property of a template, or one of each item of a list."""
    before, is_list, after = name.partition("[]")
    *parents, last = before.split(".")
    for parent in parents:
        properties = properties.setdefault(parent, {})
    if not is_list:
        (properties[last],) = found
    elif not after:
        properties[last] = found
    else:
        for each in found:
            item: dict[str, Any] = {}
            put(item, after.removeprefix("."), [each])
            properties.setdefault(last, []).append(item)


# Needs no account, as nothing is read from AWS.
PROVIDER = """
provider "aws" {
  region                      = "us-east-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_requesting_account_id  = true
}
"""
# The functions are not read. This is what a newer provider says of those with these keys: version 5 doesn't know these
# attributes. An `_override.tf` file replaces the module's own values.
TARGETS = """
data "aws_lambda_function" "target" {
  for_each = {}
}
locals {
  targets = {
    tenants = { tenancy_config = [{ tenant_isolation_mode = "PER_TENANT" }] }
    durable = { tenancy_config = [], durable_config = [{ execution_timeout = 60 }] }
  }
}
"""


def refusals(inputs: list[dict[str, Any]]) -> list[str]:
    """What Terraform says of inputs of the module. One command refuses all, because each starts the provider."""
    modules = {f"case_{nth}": {"source": "../infra/terraform", **COMMON, **each} for nth, each in enumerate(inputs)}
    with checkout() as folder:
        (folder / "infra/terraform/targets_override.tf").write_text(TARGETS)
        (folder / "root/provider.tf").write_text(PROVIDER)
        (folder / "root/main.tf.json").write_text(json.dumps({"module": modules}, indent=1))
        run(folder / "root", "init", *(commands.terraform_plugins() or []))
        told = run(folder / "root", "plan", "-json", fails=True)
    found = [json.loads(line).get("diagnostic", {}) for line in told.splitlines() if line.startswith("{")]
    return [each["detail"] for each in found if each.get("severity") == "error"]
