#!/usr/bin/env python3
"""An extension that tells what it is told, and otherwise does what its function's variable says."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
NAME = os.path.basename(sys.argv[0])
DO = json.loads(os.environ["EXTENSIONS"])[NAME]


def call(method, path, body=None, **headers):
    connection = http.client.HTTPConnection(API)
    headers = {"Lambda-Extension-" + name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, "/2020-01-01/extension" + path, body=body, headers=headers)
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def register(name, events):
    return call("POST", "/register", json.dumps({"events": events}), Name=name, Accept_Feature="x, accountId")


def say(what, value):
    print(NAME, what, json.dumps(value), flush=True)


def mark(name):
    """Leaves a mark where the function can see it, after longer than any program takes to start."""
    if "marks" in DO:
        for _ in range(3):
            subprocess.run([sys.executable, "-c", "pass"])
        open(os.path.join(DO["marks"], name), "w").close()


if "canary" in DO:
    canary = socket.create_connection(("127.0.0.1", DO["canary"]))
    canary.sendall(b"x")
if "exits" in DO:
    sys.exit(DO["exits"])
if "port" in DO:
    held = socket.create_server(("127.0.0.1", DO["port"]))
mark("registered")
status, headers, body = register(NAME, DO.get("events", ["INVOKE", "SHUTDOWN"]))
say("registered", json.loads(body))
say("variables", dict(os.environ))
IDENTIFIER = headers["Lambda-Extension-Identifier"]
if "init error" in DO:
    call("POST", "/init/error", json.dumps(DO["init error"]), Identifier=IDENTIFIER, Function_Error_Type="Own.Reason")
    sys.exit(1)
mark("ready")
while True:
    _, headers, body = call("GET", "/event/next", Identifier=IDENTIFIER)
    event = json.loads(body)
    say("told", event)
    if event["eventType"] == "SHUTDOWN":
        if "lingers" in DO:
            signal.pause()
        sys.exit(0)
    if "leaves" in DO:
        os.kill(os.getpid(), DO["leaves"])
    if "exit error" in DO:
        call("POST", "/exit/error", Identifier=IDENTIFIER, Function_Error_Type=DO["exit error"])
        signal.pause()
    mark(event["requestId"])
