"""The programs that are checked in AWS's runtime interface emulator, and those that they are checked with."""

import argparse
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import endpoints
from emulator import Answer, Function, Rie
from endpoints import Endpoint

CODE = Path(__file__).with_name("rie")

# For how long environments are stopped: the last time is longer than any function may run.
LONG = timedelta(hours=2)
FREEZES = (timedelta(), timedelta(minutes=5), LONG)

METADATA = '{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b4"}'


def envelope(payload: str) -> bytes:
    return f'{{"_retry_metadata":{METADATA},"_original_payload":{payload}}}'.encode()


class Witness:
    """The programs that are checked, and those that they are checked with."""

    def __init__(self, arguments: argparse.Namespace, local: Endpoint, folder: Path) -> None:
        self.binaries, self.local, self.folder = arguments.binaries.resolve(), local, folder
        packaged = "lib/python3*/site-packages/samcli/local/rapid/aws-lambda-rie-*"
        machine = "arm64" if platform.machine() == "aarch64" else "x86_64"
        (self.rie,) = (found for found in arguments.sam.parents[1].glob(packaged) if found.name.endswith(machine))
        self.example = Function([str(self.binaries / "example-target")])
        self.probe = Function([sys.executable, f"{CODE}/probe.py"])

    @contextmanager
    def running(self, function: Function) -> Iterator[Rie]:
        rie = Rie(self.rie, function)
        try:
            yield rie
        except Exception as error:
            error.add_note(rie.told())
            raise
        finally:
            rie.process.kill()
            rie.process.wait()
            rie.signal(signal.SIGKILL)
            rie.log.close()

    def in_local_cloud(self, name: str, function: Function) -> Callable[[bytes], Answer]:
        """Deploys a function in the local cloud. Returns how it is invoked."""
        client = self.local.client("lambda")
        client.create_function(
            FunctionName=name,
            Role=endpoints.ROLE,
            PackageType="Image",
            Code={"ImageUri": "local-command"},
            ImageConfig={"Command": list(function.command), "WorkingDirectory": str(self.folder)},
            Environment={"Variables": dict(function.variables)},
            Timeout=function.timeout,
        )

        def invoke(payload: bytes) -> Answer:
            answer = client.invoke(FunctionName=name, Payload=payload)
            return Answer(answer["StatusCode"], answer["Payload"].read())

        return invoke


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raises an `AssertionError` that shows both if they are not equal."""
    shown = [text if len(text := repr(each)) < 2000 else f"{text[:200]}… ({len(text)})" for each in (wanted, got)]
    assert got == wanted, f"{what}: expected {shown[0]}, got {shown[1]}"
