"""Writes terraform_schema.json: the arguments, blocks and attributes of the AWS provider's resources that
infra/terraform uses, from the typed classes that are generated from the provider's schema. They are a package of 37 MB,
so the tests read this extract.

    python3 tests/deployment/terraform_schema.py
"""

import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

# The version of the package is not the provider's. The documentation of the classes names that one.
PACKAGE = "@cdktf/provider-aws@21.22.1"

EXTRACT = Path(__file__).with_suffix(".json")
INFRA = Path(__file__).resolve().parents[2] / "infra" / "terraform"

_USED = re.compile(r'^(resource|data) "(aws_\w+)"', re.MULTILINE)
_INTERFACE = re.compile(r"^export interface (\w+) [^{]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROPERTY = re.compile(r"#(\w+) \w+#\w+\}[^/]*/\s*readonly \w+(\??): ([^;]+);")
_GETTER = re.compile(r"^    get (\w+)\(\)", re.MULTILINE)
_VERSION = re.compile(r"hashicorp/aws/([\d.]+)/docs")


def used() -> set[tuple[str, str]]:
    """The types of resources and data sources in the module and its examples."""
    return {match.groups() for path in INFRA.rglob("*.tf") for match in _USED.finditer(path.read_text())}


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _arguments(interface: str, interfaces: dict[str, str]) -> dict[str, Any]:
    """The arguments of an interface: whether each is required, and the content of blocks."""
    made = {}
    for name, optional, kind in _PROPERTY.findall(interfaces[interface]):
        argument: dict[str, Any] = {"required": optional == ""}
        inner = next((word for word in re.findall(r"\w+", kind) if word in interfaces), None)
        if inner is not None:
            argument["block"] = _arguments(inner, interfaces)
            argument["repeats"] = "[]" in kind
        made[name] = argument
    return made


def _schema(folder: str, classes: str) -> dict[str, Any]:
    interfaces = dict(_INTERFACE.findall(classes))
    config = next(name for name in interfaces if name.lower() == f"{folder.replace('-', '')}config")
    getters = _GETTER.findall(classes.partition(f"export interface {config} ")[2])
    attributes = {_snake(name) for name in getters if not name.endswith("Input")}
    return {"arguments": _arguments(config, interfaces), "attributes": sorted(attributes)}


def main() -> None:
    """Downloads the package with npm, and writes the extract."""
    extract: dict[str, Any] = {"provider": "", "resource": {}, "data": {}}
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            for kind, name in sorted(used()):
                short = name.removeprefix("aws_").replace("_", "-")
                directory = f"data-aws-{short}" if kind == "data" else short
                file = package.extractfile(f"package/lib/{directory}/index.d.ts")
                assert file is not None
                classes = file.read().decode()
                extract[kind][name] = _schema(directory, classes)
                (extract["provider"],) = set(_VERSION.findall(classes))
    EXTRACT.write_text(json.dumps(extract, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
