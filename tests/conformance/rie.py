"""Runs the handler, the example and the layer in AWS's runtime interface emulator, which is made of Lambda's own code.

The emulator (RIE) comes with SAM CLI. The layer's proxy runs as an extension, in front of AWS's runtime clients. RIE
looks for extensions in /opt only, so a mount namespace puts the layer there. Where the machine allows none, those
checks are left out.

The local cloud runs the same functions. `rie/differences.toml` lists where its APIs and its errors differ from RIE's.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import endpoints
import libfaketime
from endpoints import Endpoint
from inputs import failure_record, zipped

CODE = Path(__file__).with_name("rie")
WRAPPER = Path(__file__).parents[2] / "functions/envelope-proxy/comeback-exec"

# For how long environments are stopped: the last time is longer than any function may run.
LONG = timedelta(hours=2)
FREEZES = (timedelta(), timedelta(minutes=5), LONG)

# Longer than any check takes.
PATIENCE_SECONDS = 60
CHECKS_AT_A_TIME = 6

MIB = 1 << 20

# RIE runs the processes of a Managed Instance as another user, which only this machine's own root can do.
IS_ROOT = os.geteuid() == 0
# Shifts the clocks of a process. The package has it for one kind of machine, and elsewhere the loader skips it.
CLOCK = Path(libfaketime.__file__).with_name("vendor") / "libfaketime/src/libfaketime.so.1"
CLOCK_CAN_SHIFT = platform.machine() == "x86_64"
# What JSON.parse and careless clients change, except in Python: digits of big integers, and the order of keys.
ORDER = '{"z":12345678901234567890123456789,"a":1.50,"größe":[null,"\\u00e9"]}'
METADATA = '{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b4"}'

# Adds the folders `opt` and `var` to /opt and /var, for one program. Makes Python readable for every user, too.
ADD = """
for name in opt var; do mount -t overlay overlay -o "lowerdir=$0/$name:/$name" "/$name" || exit; done
mount --bind "$1" /mnt && shift && exec "$@"
"""


def with_folders(folder: Path, *command: str) -> list[str]:
    """The command, with a folder's own folders added to /opt and /var, and Python in /mnt."""
    root = [] if IS_ROOT else ["--map-root-user"]
    return ["unshare", *root, "--mount", "sh", "-c", ADD, str(folder), sys.base_prefix, *command]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def envelope(payload: str) -> bytes:
    return f'{{"_retry_metadata":{METADATA},"_original_payload":{payload}}}'.encode()


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
    layer: Path | None = None
    timeout: int = 40
    can_freeze: bool = False

    def with_variables(self, **variables: str) -> "Function":
        return self._replace(variables={**self.variables, **variables})


class Rie:
    def __init__(self, rie: Path, function: Function) -> None:
        self._port, api, proxy = free_port(), free_port(), free_port()
        # Tells the processes of this environment from others.
        self._mark = f"WITNESS={self._port}"
        command = [
            str(rie),
            f"--runtime-api-address=127.0.0.1:{api}",
            f"--runtime-interface-emulator-address=127.0.0.1:{self._port}",
            *function.command,
        ]
        if function.layer:
            command = with_folders(function.layer, *command)
        variables = {
            "PATH": os.environ["PATH"],
            "WITNESS": str(self._port),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
            "COMEBACK_PROXY_PORT": str(proxy),
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

    def invoke(self, payload: bytes, **headers: str) -> Answer:
        """Invokes the function, as soon as RIE listens."""
        while True:
            connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            try:
                connection.connect()
                break
            except ConnectionRefusedError:
                if self.ended_within(0.02):
                    raise RuntimeError(f"expected RIE to listen, it ended:\n{self.told()}") from None
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/2015-03-31/functions/function/invocations", payload, named)
        response = connection.getresponse()
        return Answer(response.status, response.read())

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


class Witness:
    """The programs that are checked, and those that they are checked with."""

    def __init__(self, arguments: argparse.Namespace, local: Endpoint, folder: Path) -> None:
        self.binaries, self.local, self.folder = arguments.binaries.resolve(), local, folder
        self.python = arguments.python
        packaged = "lib/python3*/site-packages/samcli/local/rapid/aws-lambda-rie-*"
        machine = "arm64" if platform.machine() == "aarch64" else "x86_64"
        (self.rie,) = (found for found in arguments.sam.parents[1].glob(packaged) if found.name.endswith(machine))
        self.layer = folder / "layer"
        (self.layer / "opt/extensions").mkdir(parents=True)
        (self.layer / "var/task").mkdir(parents=True)
        shutil.copy(self.binaries / "envelope-proxy", self.layer / "opt/extensions/comeback")
        shutil.copy(WRAPPER, self.layer / "opt")
        self.bootstrap = folder / "bootstrap"
        shutil.copy(self.binaries / "envelope-proxy", self.bootstrap)
        node = str(arguments.node / "aws-lambda-ric/bin/index.mjs")
        # Python does not start with a shifted monotonic clock.
        of_python = {"PYTHONPATH": str(CODE), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        runtimes = {
            "Python": Function([str(arguments.python), "-m", "awslambdaric", "app.handler"], of_python),
            "Node.js": Function([shutil.which("node") or "node", node, f"{CODE}/app.handler"]),
        }
        self.runtimes = {
            name: function._replace(
                command=["/opt/comeback-exec", *function.command],
                variables={**function.variables, "AWS_LAMBDA_EXEC_WRAPPER": "/opt/comeback-exec"},
                layer=self.layer,
            )
            for name, function in runtimes.items()
        }
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


def comes_unwrapped(witness: Witness, runtime: str) -> None:
    """Envelopes come unwrapped, other events as they are, again and again, and the tenant is passed on."""
    number = "1.2345678901234568e+28" if runtime == "Node.js" else "12345678901234567890123456789"
    order = json.loads(ORDER.replace("12345678901234567890123456789", number))
    tenant = "Tenant-7/a b"
    with witness.running(witness.runtimes[runtime]) as rie:
        for _ in range(3):
            got = rie.invoke(envelope(ORDER), X_Amz_Tenant_Id=tenant).value
            expect("an envelope", got, {"event": order, "told": json.loads(METADATA), "tenant": tenant})
            got = rie.invoke(b'{"plain":1}').value
            expect("an event that is no envelope", got["event"], {"plain": 1})
            expect("its metadata and tenant", (got["told"], got["tenant"] or None), (None, None))


def large_events(witness: Witness, runtime: str) -> None:
    """Envelopes of 1 MiB, the longest there are, come unwrapped. What is longer passes as it is."""
    with witness.running(witness.runtimes[runtime]) as rie:
        for length, is_unwrapped in ((MIB, True), (6_000_000, False)):
            text = "x" * (length - len(envelope('{"text":""}')))
            sent = envelope(f'{{"text":"{text}"}}')
            got = rie.invoke(sent).value["event"]
            expect(f"an envelope of {length}", got, {"text": text} if is_unwrapped else json.loads(sent))


def failures(witness: Witness, runtime: str) -> None:
    """An error, a crash and a time-out are reported as without the proxy, and the next event is unwrapped again."""
    with witness.running(witness.runtimes[runtime]._replace(timeout=5)) as rie:
        for do, wanted in (
            ("raise", r"(Connection)?Error: the upstream is down"),
            ("exit", r"Runtime\.ExitError: RequestId: <id> Error: Runtime exited with error: exit status 3"),
            ("hang", r"Task timed out after 5\.00 seconds"),
        ):
            got = rie.invoke(envelope(f'{{"do":"{do}"}}')).error
            assert re.fullmatch(wanted, got), f"expected {wanted!r}, got {got!r}"
            expect("the next event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))


def failed_starts(witness: Witness, runtime: str) -> None:
    """An error in the initialisation reaches the caller, and a crash ends only the environment."""
    function = witness.runtimes[runtime]
    with witness.running(function.with_variables(START="error")) as rie:
        for _ in range(2):
            error = rie.invoke(envelope(ORDER)).error
            assert error.endswith("Error: no settings"), error
    with witness.running(function.with_variables(START="crash")) as rie:
        expect("a crash at the start", rie.invoke(envelope(ORDER)), Answer(502, b""))


def slow_start(witness: Witness) -> None:
    """A function that starts for longer than the 10 s of Lambda's initialisation gets its events unwrapped."""
    with witness.running(witness.runtimes["Python"].with_variables(START="10.5")) as rie:
        expect("the first event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))


def ends_when_told(witness: Witness, runtime: str) -> None:
    """SIGTERM ends RIE after the proxy, which is told of the shutdown, and leaves no process."""
    with witness.running(witness.runtimes[runtime]) as rie:
        rie.invoke(envelope(ORDER))
        rie.process.terminate()
        rie.process.wait(PATIENCE_SECONDS)
        assert "Killing it" not in rie.told(), "expected the runtime and the extension to end before RIE kills them"
        expect("processes left", rie.processes(), [])


def thaws(witness: Witness, runtime: str) -> None:
    """An environment handles an event after it was stopped for no time, for minutes, and past the event's deadline."""
    with witness.running(witness.runtimes[runtime]._replace(timeout=900, can_freeze=True)) as rie:
        rie.invoke(envelope(ORDER))
        for ahead in FREEZES:
            rie.freeze(ahead)
            expect("an event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))
            rest = rie.invoke(envelope('{"do":"rest"}')).value
            expect("whether its time is up", rest <= 0, CLOCK_CAN_SHIFT and ahead == LONG)


def many_at_once(witness: Witness) -> None:
    """A Managed Instance: 16 events at the same time in one environment, each with its own metadata."""
    count = 16
    layer = shutil.copytree(witness.layer, witness.folder / "instance")
    # RIE starts no other program, and not as the owner of our files.
    bootstrap = layer / "opt/bootstrap"
    bootstrap.write_text("#!/bin/sh\nexec /opt/comeback-exec /mnt/bin/python3 -m awslambdaric app.handler\n")
    bootstrap.chmod(0o755)
    meeting = witness.folder / "meeting"
    meeting.touch()
    meeting.chmod(0o666)
    witness.folder.chmod(0o755)
    packages = witness.python.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    variables = {"AWS_LAMBDA_MAX_CONCURRENCY": str(count), "PYTHONPATH": f"{packages}:{CODE}"}
    variables["AWS_LAMBDA_EXEC_WRAPPER"] = "/opt/comeback-exec"
    with witness.running(Function([], variables, layer)) as rie, ThreadPoolExecutor(count) as pool:
        metadata = [{**json.loads(METADATA), "attempt": 1 + each, "request_id": f"id-{each}"} for each in range(count)]
        payload = {"do": "meet", "at": str(meeting), "count": count}
        sent = [{"_retry_metadata": told, "_original_payload": {**payload, "it": told["attempt"]}} for told in metadata]

        def invoke(event: Any) -> Any:
            # RIE refuses an event while fewer workers of the runtime are ready.
            while "Runtime.Unavailable" in (got := rie.invoke(json.dumps(event).encode())).error:
                assert not rie.ended_within(0.02), "expected RIE to run, it ended"
            return got.value

        got = list(pool.map(invoke, sent))
        expect("the metadata", [each["told"] for each in got], metadata)
        expect("the payloads", [each["event"]["it"] for each in got], [told["attempt"] for told in metadata])


def kit_and_bootstrap(witness: Witness) -> None:
    """The example reads envelopes with the kit. With the proxy as its bootstrap it gets bare payloads."""
    alone = witness.example
    proxied = Function([str(witness.bootstrap)], {"COMEBACK_BOOTSTRAP": alone.command[0]})
    for function, attempt in ((alone, 2), (proxied, 0)):
        with witness.running(function._replace(timeout=2)) as rie:
            for fail, wanted in (
                ({"error": "Busy", "message": "503"}, "Busy: 503"),
                ({"by": "crash"}, "Runtime.ExitError: RequestId: <id> Error: Runtime exited with error: exit status 1"),
                ({"by": "hang"}, "Task timed out after 2.00 seconds"),
            ):
                expect(str(fail), rie.invoke(envelope(json.dumps({"fail": fail}))).error, wanted)
                got = rie.invoke(envelope('{"id":7}')).value
                expect("the next event", got, {"id": 7, "attempt": attempt})
                rie.freeze(timedelta())


def handler(witness: Witness) -> None:
    """The handler invokes, gives up and keeps waiting.

    It also does after minutes in which it was stopped, its connections were closed and its credentials expired. If
    an event's deadline is over, it leaves all messages in the queue.
    """
    command = [str(witness.binaries / "retry-handler")]
    with witness.running(Function(command)) as rie:
        expect("no settings", rie.invoke(b"{}"), Answer(502, b""))
        assert "DEAD_LETTER_QUEUE_URL must be" in rie.told(), "expected the setting's name in the log"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {**Endpoint("", url).environment(), "BASE_BACKOFF": "1h", "MAX_BACKOFF": "1h", "MAX_AGE": "365d"}
    variables["DEAD_LETTER_QUEUE_URL"] = f"{url}/{endpoints.ACCOUNT}/dead"
    # RIE invents the function's account, so the target is none of its own.
    variables["TARGET_FUNCTIONS"] = f"arn:aws:lambda:{endpoints.REGION}:{endpoints.ACCOUNT}:function:target"
    del variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
    with (
        credentials(lasting=FREEZES[1] / 2) as (url, given),
        witness.running(
            Function(command, {**variables, "AWS_CONTAINER_CREDENTIALS_FULL_URI": url}, timeout=900, can_freeze=True)
        ) as rie,
    ):
        for ahead in FREEZES:
            # A cloud of its own, which closes all connections when it ends.
            with endpoints.local(witness.binaries / "comeback-local", arguments=[str(port)]) as cloud:
                if ahead:
                    rie.freeze(ahead)
                _one_of_each(rie, cloud, witness, is_late=CLOCK_CAN_SHIFT and ahead == LONG)
    expect("how often it asked for credentials", len(given), 2 if CLOCK_CAN_SHIFT else 1)


@contextmanager
def credentials(lasting: timedelta) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that gives out credentials, and those that it gave. Only the first expire that soon."""
    given: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            expires = datetime.now(UTC) + (timedelta(days=1) if given else lasting)
            given.append(f"KEY{len(given)}")
            body = {"AccessKeyId": given[-1], "SecretAccessKey": "local", "Token": "token"}
            text = json.dumps({**body, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", given
        server.shutdown()


def _one_of_each(rie: Rie, cloud: Endpoint, witness: Witness, *, is_late: bool) -> None:
    sqs, functions = cloud.client("sqs"), cloud.client("lambda")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    queue = sqs.create_queue(QueueName="retry")["QueueUrl"]
    code = zipped({"bootstrap": (witness.binaries / "example-target").read_bytes()})
    arn = functions.create_function(
        FunctionName="target",
        Role=endpoints.ROLE,
        Runtime="provided.al2023",
        Handler="bootstrap",
        Code={"ZipFile": code},
    )["FunctionArn"]
    now = datetime.now(UTC)
    first, second = (failure_record(f"{arn}:$LATEST", {"id": 7}, failed) for failed in (now - timedelta(hours=2), now))
    for record in (first, second):
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(record))
    sqs.send_message(QueueUrl=queue, MessageBody="no record")
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
    batch = [
        {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{endpoints.REGION}:{endpoints.ACCOUNT}:retry",
            "awsRegion": endpoints.REGION,
        }
        for message in received
    ]
    (waits,) = (each["messageId"] for each in batch if second["timestamp"] in each["body"])
    got = rie.invoke(json.dumps({"Records": batch}).encode()).value
    stay = [each["messageId"] for each in batch] if is_late else [waits]
    expect("what stays in the queue", got, {"batchItemFailures": [{"itemIdentifier": each} for each in stay]})
    if is_late:
        return
    letters = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, MessageAttributeNames=["Reason"])["Messages"]
    told = [(letter["Body"], letter["MessageAttributes"]["Reason"]["StringValue"]) for letter in letters]
    expect("the dead letters", told, [("no record", "unreadable")])


def differs_as_listed(witness: Witness) -> None:
    """The local cloud's APIs and errors differ from RIE's only where `differences.toml` says why."""
    hang = {"id": 7, "fail": {"by": "hang"}}
    functions = {
        "probe": (witness.probe, [{}, {}]),
        "example": (witness.example._replace(timeout=1), [{"fail": {"by": "crash"}}, hang, {"id": 7}]),
        "bad settings": (Function([str(witness.binaries / "retry-handler")]), [{}]),
    }
    found: dict[str, dict[str, str]] = {}
    for name, (function, sent) in functions.items():
        in_local_cloud = witness.in_local_cloud(name.replace(" ", "-"), function)
        with witness.running(function) as rie:
            theirs, ours = (
                [invoke(json.dumps(each).encode()) for each in sent] for invoke in (rie.invoke, in_local_cloud)
            )
        if name == "probe":
            pairs = {step: (ours[-1].value[step], answer) for step, answer in theirs[-1].value.items()}
        else:
            steps = (f"{name}: {json.dumps(event)}" for event in sent)
            pairs = {step: (own.error, other.error) for step, own, other in zip(steps, ours, theirs, strict=True)}
        found |= {step: {"local": own, "rie": other} for step, (own, other) in pairs.items() if own != other}
    table = tomllib.loads((CODE / "differences.toml").read_text())["difference"]
    listed = {step: answers for entry in table for step, answers in entry["answers"].items()}
    for step in sorted(found.keys() | listed.keys()):
        expect(f"{step} in differences.toml", listed.get(step), found.get(step))


ALWAYS: tuple[Callable[[Witness], None], ...] = (kit_and_bootstrap, handler, differs_as_listed)
WITH_LAYER: tuple[Callable[[Witness], None], ...] = (
    slow_start,
    *(
        partial(check, runtime=runtime)
        for check in (comes_unwrapped, large_events, failures, failed_starts, ends_when_told, thaws)
        for runtime in ("Python", "Node.js")
    ),
)


def complaint(check: Callable[[Witness], None], witness: Witness) -> str | None:
    try:
        check(witness)
    except Exception as error:
        named = check.func.__name__ + str(check.keywords) if isinstance(check, partial) else check.__name__
        return f"{named}: {error!r}\n" + "\n".join(getattr(error, "__notes__", ()))
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    parser.add_argument("sam", type=Path, help="an interpreter with SAM CLI")
    parser.add_argument("python", type=Path, help="an interpreter with awslambdaric")
    parser.add_argument("node", type=Path, help="a node_modules with aws-lambda-ric")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rie-") as folder,
        endpoints.local(arguments.binaries.resolve() / "comeback-local") as local,
        ThreadPoolExecutor(CHECKS_AT_A_TIME) as pool,
    ):
        witness = Witness(arguments, local, Path(folder))
        allowed = subprocess.run(with_folders(witness.layer, "true"), capture_output=True, text=True)
        checks, left_out = [*ALWAYS], {}
        if allowed.returncode:
            left_out["the layer"] = f"no folder can be put over /opt here: {allowed.stderr.strip()}"
        else:
            checks += WITH_LAYER
            if IS_ROOT:
                checks.append(many_at_once)
            else:
                left_out["Managed Instances"] = "RIE runs their processes as another user, so it must be root"
        complaints = [each for each in pool.map(lambda check: complaint(check, witness), checks) if each]
    for each in complaints:
        print(each, end="\n\n", file=sys.stderr)
    print(f"{len(checks)} checks in AWS's runtime interface emulator, {len(complaints)} complaints")
    for what, why in left_out.items():
        print(f"left out {what}: {why}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
