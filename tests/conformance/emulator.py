"""A function in AWS's runtime interface emulator (RIE): its processes, their clocks, and its answers."""

import json
import os
import platform
import random
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import libfaketime

# Longer than any check takes.
PATIENCE_SECONDS = 60

# Shifts the clocks of a process. The package has it for one kind of machine, and elsewhere the loader skips it.
CLOCK = Path(libfaketime.__file__).with_name("vendor") / "libfaketime/src/libfaketime.so.1"
CLOCK_CAN_SHIFT = platform.machine() == "x86_64"


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to connections."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class Answer(NamedTuple):
    """What the caller of a function gets."""

    status: int
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The type and the message of an error, without what is new each time."""
        try:
            told = self.value
            text = f"{told.get('errorType')}: {told['errorMessage']}"
        except (AttributeError, KeyError, TypeError, ValueError):
            text = self.body.decode()
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", re.sub(r"^\S+Z ", "", text))


class Function(NamedTuple):
    command: Sequence[str]
    variables: Mapping[str, str] = {}
    timeout: int = 40
    can_freeze: bool = False


class Rie:
    def __init__(self, rie: Path, function: Function) -> None:
        self._port, self._api = free_port(), free_port()
        # Tells the processes of this environment from others.
        self._mark = f"WITNESS={self._port}"
        command = [
            str(rie),
            f"--runtime-api-address=127.0.0.1:{self._api}",
            f"--runtime-interface-emulator-address=127.0.0.1:{self._port}",
            *function.command,
        ]
        variables = {
            "PATH": os.environ["PATH"],
            "WITNESS": str(self._port),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
            **function.variables,
        }
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115, running() closes it
        self._clock = tempfile.NamedTemporaryFile("w")  # noqa: SIM115
        if function.can_freeze:
            self._set_clock(timedelta())
            variables |= {
                "LD_PRELOAD": str(CLOCK),
                "FAKETIME_TIMESTAMP_FILE": self._clock.name,
                "FAKETIME_NO_CACHE": "1",
            }
        self.process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT
        )

    def invoke(self, payload: bytes) -> Answer:
        """Invokes the function, as soon as RIE listens.

        RIE may accept an invocation, and start the function, before its Runtime API listens.
        """
        self._connected(self._api).close()
        connection = self._connected(self._port)
        connection.request("POST", "/2015-03-31/functions/function/invocations", payload)
        response = connection.getresponse()
        return Answer(response.status, response.read())

    def _connected(self, port: int) -> HTTPConnection:
        while True:
            connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            try:
                connection.connect()
                return connection
            except ConnectionRefusedError:
                if self.ended_within(0.02):
                    raise RuntimeError(f"expected RIE to listen, it ended:\n{self.told()}") from None

    def ended_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def told(self) -> str:
        """What RIE and the function's processes have written."""
        self.log.seek(0)
        return self.log.read()

    def processes(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return [each for each in found if each != self.process.pid]

    def freeze(self, ahead: timedelta) -> None:
        """Stops the function's processes. When they go on, their clocks are ahead of RIE's by this."""
        self.signal(signal.SIGSTOP)
        self._set_clock(ahead)
        self.signal(signal.SIGCONT)

    def _set_clock(self, ahead: timedelta) -> None:
        Path(self._clock.name).write_text(f"+{ahead.total_seconds():.0f}s")

    def signal(self, signal_number: int) -> None:
        for each in self.processes():
            with suppress(ProcessLookupError):
                os.kill(each, signal_number)
