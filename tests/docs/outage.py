"""Measures the figures for docs/pictures/outage.svg, and writes docs/pictures/outage.csv.

python3 tests/docs/outage.py [MINUTES]     how long the function is down (10); takes twice as long, and needs boto3

Two local clouds run side by side, one of them with probes. Each receives an event a second, and all runs fail until the
outage is over. Retries are counted in steps of ten seconds, from the journals.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/pictures/outage.csv"

WITH = {"plain": [], "probes": ["--ledger", "--set", "REGISTER=true", "--set", "PROBE=true"]}
STEP_SECONDS = 10
BEGINS = re.compile(r"^(\d\d:\d\d:\d\d\.\d+)Z +example-target .* attempt \d+ begins")


class Cloud:
    """A local cloud, and the seconds of the day at which it made retries."""

    def __init__(self, port: int, options: list[str]) -> None:
        """Starts the local cloud, and returns when it is ready."""
        command = [ROOT / "scripts/local", "--port", str(port), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.retries: list[float] = []
        ready = threading.Event()
        threading.Thread(target=self.read, args=[ready], daemon=True).start()
        ready.wait()
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
        self.functions: Any = boto3.client("lambda", endpoint_url=f"http://127.0.0.1:{port}", **keys)

    def read(self, ready: threading.Event) -> None:
        """Reads the journal to its end."""
        for line in self.process.stdout or ():
            if line.startswith("What happens"):
                ready.set()
            if "can't be" in line:
                print("This run is not typical:", line, file=sys.stderr)
            if found := BEGINS.match(line):
                at = datetime.strptime(found[1], "%H:%M:%S.%f")
                self.retries.append(timedelta(hours=at.hour, minutes=at.minute, seconds=at.second).total_seconds())


def main() -> None:
    """Runs the outage, and writes the counts."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    clouds = {name: Cloud(4801 + nth, options) for nth, (name, options) in enumerate(WITH.items())}
    begin = datetime.now(UTC)
    until = (begin + timedelta(minutes=minutes)).isoformat(timespec="seconds")
    length = round(minutes * 120)
    for nth in range(length):
        time.sleep(max(0, (begin - datetime.now(UTC)).total_seconds() + nth))
        for cloud in clouds.values():
            event = json.dumps({"id": nth, "fail": {"until": until}})
            cloud.functions.invoke(FunctionName="example-target", InvocationType="Event", Payload=event)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = (begin - midnight).total_seconds()
    counts = {}
    for name, cloud in clouds.items():
        cloud.process.send_signal(signal.SIGINT)
        cloud.process.wait()
        # The run may have crossed midnight.
        counts[name] = Counter(int((at - first) % 86_400 // STEP_SECONDS) for at in cloud.retries)
    rows = [",".join(["seconds", *counts])]
    for step in range(length // STEP_SECONDS):
        rows.append(",".join(str(number) for number in [step * STEP_SECONDS, *(it[step] for it in counts.values())]))
    DATA.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
