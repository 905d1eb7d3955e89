"""Reads SAM's templates and transforms them as CloudFormation would, without uploading code."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from documents import read
from samtranslator.translator.transform import transform
from template import PSEUDO_PARAMETERS, Template

APPLICATION = "AWS::Serverless::Application"
# A placeholder for the location of code, which is not compared.
UPLOADED = "s3://bucket/key"


# The transformer publishes metrics of its own, and each transform would log that this was not possible.
logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)


EXAMPLE = Path(__file__).resolve().parents[2] / "infra" / "sam" / "example" / "template.yaml"


def transformed(path: Path, parameters: Mapping[str, str] | None = None) -> Template:
    """Reads a template and its nested applications, after SAM's transform."""
    return transformed_document(read(path), path.parent, parameters)


def transformed_document(
    document: dict[str, Any], folder: Path, parameters: Mapping[str, str] | None = None
) -> Template:
    """Applies SAM's transform to a document that belongs into this folder."""
    nested = {}
    for name, resource in document["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == APPLICATION:
            nested[name] = transformed(folder / properties["Location"])
            properties["Location"] = "https://s3.amazonaws.com/bucket/key"
        elif "CodeUri" in properties:
            properties["CodeUri"] = UPLOADED
    os.environ["AWS_DEFAULT_REGION"] = PSEUDO_PARAMETERS["AWS::Region"]
    return Template(transform(document, {}, _NoManagedPolicies()), parameters or {}, nested)


class _NoManagedPolicies:
    """Replaces the list of AWS's managed policies, which no template here uses."""

    def load(self) -> dict[str, str]:
        """None."""
        return {}
