"""The functions under test, and the settings of the systems that retry their failures."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inputs import zipped

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "infra" / "sam" / "example" / "template.yaml"
FUNCTIONS = Path(__file__).resolve().parent / "functions"

ATTEMPTS_MAX = 3
# Longer than the whole run.
SLOW = "20m"

# The settings of both systems. Backoffs are short, so that the run is fast.
BACKOFFS = {"BaseBackoff": "1s", "MaxBackoff": "2s"}

# The settings in which the systems differ.
SYSTEMS = {
    "Retry": {"MaxAttempts": str(ATTEMPTS_MAX)},
    # The limit is so low that waits are kept as delays.
    "Second": {"MaxAttempts": "30", "InFlightMax": "1"},
}


@dataclass(frozen=True)
class Function:
    """A function under test."""

    name: str
    # The system of the template that retries its failures. None for a function whose records the run examines itself.
    system: str | None
    code: str = "python"
    runtime: str = "python3.13"
    handler: str = "app.handler"
    # The settings of its own policy.
    policy: tuple[tuple[str, Any], ...] = ()
    # Whether the layer hides the envelope from it.
    is_transparent: bool = False
    # Lambda's default is Terminate.
    recursive_loop: str = "Allow"

    def properties(self, layer: Any, **variables: str) -> dict[str, Any]:
        """Its settings, as the API and CloudFormation name them."""
        properties: dict[str, Any] = {"Runtime": self.runtime, "Handler": self.handler, "Timeout": 20}
        if self.is_transparent:
            variables = {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/comeback-exec", **variables}
            properties |= {"Layers": [layer], "Environment": {"Variables": variables}}
        return properties


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
    Function("Layered", "Retry", policy=MANY, is_transparent=True),
    Function("LayeredNode", "Retry", "node", "nodejs22.x", "index.handler", policy=MANY, is_transparent=True),
    Function("Crowd", "Second"),
    Function("Doomed", "Second", policy=(("MAX_ATTEMPTS", 1),)),
    Function("Spied", None, recursive_loop="Terminate"),
)


def source(function: Function) -> Path:
    """The folder with a function's code."""
    return FUNCTIONS / function.code


def document_of_policies(parts: "Parts", system: str, names: dict[str, str]) -> str:
    """The value of `POLICIES`, for functions with these names."""
    own = [each for each in parts.functions() if each.system == system and each.policy]
    return json.dumps({names[each.name]: dict(each.policy) for each in own})


def zipped_folder(folder: Path) -> bytes:
    """A zip of the files at the top level of a folder."""
    return zipped({path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()})


@dataclass(frozen=True)
class Parts:
    """The parts to deploy: the handler and the layer as zips, and the architecture of all functions."""

    handler: bytes
    layer: bytes | None
    arch: str

    def functions(self) -> list[Function]:
        """The functions under test."""
        return [each for each in TARGETS if self.layer or not each.is_transparent]
