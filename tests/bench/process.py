"""Runs a handler as Lambda would, and measures its process from outside.

The kernel reports the CPU time of the process and its peak resident memory. The peak comes from `/proc`, because
`getrusage` reports a peak that a child process inherits from its parent, which is this Python process.
"""

import asyncio
import functools
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cloud import OWN_ARN, Cloud, NotMeasured, serve
from messages import ACCOUNT, BACKOFF, REGION, Batch

HOST = "127.0.0.1"

# Lambda's images have their CA certificates in one file, and the folder that is searched only links to it. Debian also
# has each certificate in a file of its own, and without this variable all of those are read too.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# Far longer than any run. A handler that takes longer hangs, and is killed.
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Handler:
    name: str
    command: list[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Run:
    messages: int
    # The sizes of the requests, by operation.
    requests: Mapping[str, Sequence[float]]
    cpu_seconds: float
    start_seconds: float
    peak_bytes: int

    @property
    def calls(self) -> int:
        return sum(map(len, self.requests.values()))


async def run(
    handler: Handler,
    batches: Sequence[Batch],
    log: Path,
    own: Cloud | None = None,
    ends_by: signal.Signals = signal.SIGKILL,
) -> Run:
    """Starts a new process of the handler, feeds it these batches, and kills it at the end.

    A caller that passes its own cloud, with the same batches, checks the requests itself."""
    cloud = own or Cloud(batches)
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(functools.partial(serve, cloud), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    environment = {**_lambda_environment(port), **handler.environment}
    # The log goes to a file, not to a pipe: reading a pipe would take CPU time while the handler is measured.
    output = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    redirections = [output, (os.POSIX_SPAWN_DUP2, 1, 2)]

    started_at = time.perf_counter()
    pid = os.posix_spawn(handler.command[0], handler.command, environment, file_actions=redirections)
    exited = os.pidfd_open(pid)
    loop.add_reader(exited, cloud.fail, NotMeasured("the process ended by itself"))
    try:
        await asyncio.wait_for(cloud.finished, PATIENCE_SECONDS)
        peak_bytes = _peak_bytes(pid)
    except (NotMeasured, TimeoutError) as error:
        said = log.read_text(errors="replace")[-2000:]
        raise NotMeasured(f"{handler.name}: {error or 'it hangs'}\n{said}") from error
    finally:
        loop.remove_reader(exited)
        signal.pidfd_send_signal(exited, ends_by)
        _, _, usage = os.wait4(pid, 0)
        os.close(exited)
        server.close()
    try:
        if own is None:
            cloud.check()
    except NotMeasured as error:
        raise NotMeasured(f"{handler.name}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NotMeasured(f"{handler.name}: wrote what can't be read: {error!r}") from error
    return Run(
        messages=sum(len(batch.messages) for batch in batches),
        requests=cloud.sizes(),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        start_seconds=cloud.first_answer_at - started_at,
        peak_bytes=peak_bytes,
    )


def _lambda_environment(port: int) -> dict[str, str]:
    """The variables that Lambda sets, the endpoint of the stub, and settings without randomness."""
    endpoint = f"http://{HOST}:{port}"
    queue_url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}"
    backoff = str(int(BACKOFF.total_seconds()))
    return {
        "AWS_LAMBDA_RUNTIME_API": f"{HOST}:{port}",
        "AWS_LAMBDA_FUNCTION_NAME": OWN_ARN.rsplit(":")[-1],
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/retry-handler",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_SESSION_TOKEN": "not-a-token" * 30,
        "AWS_ENDPOINT_URL": endpoint,
        "DEAD_LETTER_QUEUE_URL": f"{queue_url}/dead-letter-queue",
        "BASE_BACKOFF": backoff,
        "MAX_BACKOFF": backoff,
        "MAX_AGE": str(24 * 60 * 60),
        "JITTER": "none",
        **({"SSL_CERT_FILE": CERTIFICATES} if Path(CERTIFICATES).exists() else {}),
        # Hides the user's AWS configuration.
        "HOME": "/nonexistent",
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if peak is None:
        raise NotMeasured("expected the kernel to tell the peak of resident memory")
    return int(peak[1]) * 1024
