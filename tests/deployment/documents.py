"""Parses SAM's templates, without any transform."""

from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation's intrinsic functions."""


def _function(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    match node:
        case yaml.ScalarNode():
            argument: Any = loader.construct_scalar(node)
        case yaml.SequenceNode():
            argument = loader.construct_sequence(node, deep=True)
        case _:
            argument = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(argument, str):
        argument = argument.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": argument}


_Loader.add_multi_constructor("!", _function)


def read(path: Path) -> dict[str, Any]:
    """Parses a template, without any transform."""
    return yaml.load(path.read_text(), Loader=_Loader)
