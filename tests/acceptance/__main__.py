"""Deploys the example, plays all scenarios against it, and removes everything. scripts/acceptance runs it."""

import argparse
import os
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from aws import Account, Refused, Stack, Stopped, said
from botocore.exceptions import BotoCoreError, ClientError
from local import StackOfCalls
from maker import ROOT, SYSTEMS, TARGETS, Parts
from play import CANT, FAILED, Part, play, sentence
from questions import QUESTIONS
from report import Played, costs, played, write
from scenarios import SCENARIOS
from world import World

# A bucket's name may have 63 characters. It contains the account and the region.
NAME = re.compile(r"[a-z][a-z0-9-]{2,28}[a-z0-9]")

INTERRUPTED = 130


def main() -> int:
    arguments = parsed()
    try:
        account = Account(arguments.endpoint_url, arguments.emulator if arguments.endpoint_url else None)
        kind = StackOfCalls if account.emulator in ("local", "localstack", "localemu") else Stack
        stack = kind(account, arguments.clean or arguments.name or f"comeback-acceptance-{secrets.token_hex(3)}")
        where = f"account {account.id}, region {account.region}" + (f", {account.url}" if account.url else "")
        print(where, file=sys.stderr)
        if arguments.clean:
            print(f"{stack.name} is removed" if stack.remove() else f"there is nothing of {stack.name}")
            return 0
        stack.refuse_if_there()
        parts, chosen = parts_of(arguments), chosen_of(arguments)
        if not (arguments.yes or account.emulator) and not agreed(stack, where):
            return 1
    except (BotoCoreError, ClientError, Refused) as error:
        print(f"scripts/acceptance: {said(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop(stack))
    return deployed_and_removed(stack, parts, chosen, arguments)


def parsed() -> argparse.Namespace:
    """The arguments. scripts/acceptance has checked their names and prints the usage."""
    parser = argparse.ArgumentParser(prog="scripts/acceptance", usage="see --help", add_help=False, allow_abbrev=False)
    parser.add_argument("--name", type=name)
    parser.add_argument("--clean", type=name)
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--arch", choices=["arm64", "x86_64"], default="arm64")
    parser.add_argument("--zips", type=Path, default=ROOT / "dist")
    parser.add_argument("--comeback", type=Path)
    parser.add_argument("--endpoint-url")
    parser.add_argument("--emulator", choices=sorted(CANT), default="ministack")
    return parser.parse_args()


def name(argument: str) -> str:
    if not NAME.fullmatch(argument):
        raise argparse.ArgumentTypeError(f"expected 4 to 30 lower-case letters, digits and hyphens, got {argument!r}")
    return argument


def parts_of(arguments: argparse.Namespace) -> Parts:
    handler = arguments.zips / arguments.arch / "bootstrap.zip"
    if not handler.exists():
        packs = f"scripts/package --arch {arguments.arch} makes it"
        raise Refused(f"expected the retry handler in {handler}, and there is no such file; {packs}")
    return Parts(handler.read_bytes(), arguments.arch)


def chosen_of(arguments: argparse.Namespace) -> tuple[Part, ...]:
    named = [(sentence(each), each) for each in (*SCENARIOS, *QUESTIONS)]
    chosen = tuple(each for name, each in named if not arguments.only or any(text in name for text in arguments.only))
    if not chosen:
        raise Refused(f"expected a part of a scenario's name, got {arguments.only}; docs/acceptance.md has the names")
    return chosen


def agreed(stack: Stack, where: str) -> bool:
    """Asks for permission to spend money."""
    print(
        f"This makes the stack {stack.name} and the bucket {stack.bucket} in {where},\n"
        "takes about ten minutes, costs well under a dollar, and removes everything.",
        file=sys.stderr,
    )
    if not sys.stdin.isatty():
        print("scripts/acceptance: expected --yes, since nobody can be asked", file=sys.stderr)
        return False
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def stop(stack: Stack) -> None:
    """Asks the run to end. A call that is under way is not interrupted, so that the run knows what exists."""
    stack.stop.set()
    text = f"ending; what was made is removed, which takes minutes. If this is killed: --clean {stack.name}\n"
    # A signal may come while the run itself prints.
    os.write(sys.stderr.fileno(), text.encode())


def note(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def deployed_and_removed(stack: Stack, parts: Parts, chosen: Sequence[Part], arguments: argparse.Namespace) -> int:
    """Deploys, plays and removes. It removes everything, however the run ends."""
    began = time.monotonic()
    whole, status = None, 1
    try:
        note(f"deploying {stack.name}")
        stack.deploy(parts)
        note(f"deployed within {time.monotonic() - began:.0f} s; playing the scenarios")
        whole = play_all(stack, chosen, arguments, began)
        status = 1 if any(each.result == FAILED for each in whole.results) else 0
    except Stopped:
        status = INTERRUPTED
    except (BotoCoreError, ClientError, Refused) as error:
        note(said(error))
    finally:
        if not removed(stack):
            status = 1
    if whole:
        report = arguments.json or Path(f"{stack.name}.json")
        print(write(report, whole))
        if not stack.account.emulator:
            note(f"nobody has told us yet: please attach {report} and {report.with_suffix('.md')} to an issue. Choose")
            note("'A run of scripts/acceptance'. The files have no account number, no payload and no key")
    return status


def play_all(stack: Stack, chosen: Sequence[Part], arguments: argparse.Namespace, began: float) -> Played:
    world, account = world_of(stack, arguments), stack.account
    results = []
    for result in play(chosen, world, CANT.get(account.emulator or "", {})):
        note(f"{result.result}: {result.name}" + (f": {result.said}" if result.result == FAILED else ""))
        results.append(result)
    order = [sentence(each) for each in chosen]
    results.sort(key=lambda result: order.index(result.name))
    seconds = time.monotonic() - began
    paid = costs(world.logs(), account.calls, len(SYSTEMS), sum("Alarm" in each for each in stack.names), seconds)
    return played(stack.name, account, seconds, results, paid, world.warnings())


def removed(stack: Stack) -> bool:
    """Removes everything. Returns whether nothing is left."""
    note(f"removing {stack.name}")
    try:
        stack.remove()
    except (BotoCoreError, ClientError, Refused) as error:
        note(f"NOT everything is removed: {said(error)}; scripts/acceptance --clean {stack.name} tries again")
        return False
    note("everything is removed")
    return True


def world_of(stack: Stack, arguments: argparse.Namespace) -> World:
    account, names = stack.account, stack.names
    if account.emulator == "ministack":
        # ministack ignores `RecursiveLoop` in templates.
        allowed = [each.name for each in TARGETS if each.recursive_loop == "Allow"]
        for function in {"Retry/Handler", "Second/Handler", "Orders", *allowed} & names.keys():
            account.client("lambda").put_function_recursion_config(FunctionName=names[function], RecursiveLoop="Allow")
    systems = {"Retry": stack.system("Retry", "Orders"), "Second": stack.system("Second", "Crowd")}
    found = arguments.comeback or shutil.which("comeback")
    program = Path(found).resolve() if found else None
    return World(account, names, stack.logged, systems, program, stack.stop, stack.interval, stack.bucket)


if __name__ == "__main__":
    sys.exit(main())
