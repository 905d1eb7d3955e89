#!/usr/bin/env python3
"""A function that speaks the Runtime API by itself, and does what its event says."""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import time

API = os.environ["AWS_LAMBDA_RUNTIME_API"]
RUNTIME = "/2018-06-01/runtime"


def call(method, path, body=None, chunked=False):
    connection = http.client.HTTPConnection(API)
    connection.request(
        method,
        RUNTIME + path,
        body=body,
        encode_chunked=chunked,
        headers={"Transfer-Encoding": "chunked"} if chunked else {},
    )
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def canary(port):
    """A connection that ends when this process and all that it started are gone."""
    connection = socket.create_connection(("127.0.0.1", port))
    os.set_inheritable(connection.fileno(), True)
    subprocess.Popen(["sleep", "1000"], close_fds=False)
    connection.sendall(b"x")
    return connection


def stream(path, event):
    """A response in chunks, by hand: the library knows no trailers."""
    host, port = API.split(":")
    connection = socket.create_connection((host, int(port)))
    answer = connection.makefile("rb")
    head = [
        f"POST {RUNTIME}{path}/response HTTP/1.1",
        f"Host: {API}",
        "Transfer-Encoding: chunked",
        "Lambda-Runtime-Function-Response-Mode: streaming",
    ]
    trailers = b""
    if "error" in event:
        head.append("Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body")
        body = base64.b64encode(event["error"].encode())
        trailers = b"Lambda-Runtime-Function-Error-Type: Own\r\nLambda-Runtime-Function-Error-Body: " + body + b"\r\n"
    if "expect" in event:
        head.append("Expect: 100-continue")
    connection.sendall("\r\n".join([*head, "", ""]).encode())
    if "expect" in event:
        print("expected", answer.readline().strip().decode(), flush=True)
        answer.readline()
    chunks = [chunk.encode() for chunk in event["chunks"]]
    for chunk in chunks + [b"x" * event.get("of", 0)] * event.get("times", 0):
        connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    connection.sendall(b"0\r\n" + trailers + b"\r\n")
    print("streamed", answer.readline().strip().decode(), flush=True)


def marks():
    """The marks that earlier environments have left."""
    return os.listdir(os.environ["MARKS"]) if "MARKS" in os.environ else []


def answer(request_id, event, headers):
    do = event.get("do") if isinstance(event, dict) else None
    path = f"/invocation/{request_id}"
    if do == "raise":
        return call("POST", path + "/error", b'{ "errorMessage": "no luck", "n": 1.50 }')
    if do == "exit":
        sys.exit(event["status"])
    if do == "kill":
        os.kill(os.getpid(), 9)
    if do in ("hang", "leave"):
        kept.append(canary(event["canary"]))
        if do == "leave":
            sys.exit(3)
        time.sleep(1000)
    if do == "stay":
        kept.append(canary(event["canary"]))
    if do == "write":
        print(event["line"], flush=True)
    if do == "chunks":
        return call("POST", path + "/response", iter([b"[1,", b"2", b"]"]), chunked=True)
    if do == "text":
        return call("POST", path + "/response", b"<not json>")
    if do == "stream":
        return stream(path, event)
    if do == "large":
        return call("POST", path + "/response", b'"' + b"x" * (6 * 1024 * 1024 + 200) + b'"')
    if do == "meet":
        connection = socket.create_connection(("127.0.0.1", event["port"]))
        connection.sendall(b"x")
        connection.recv(1)
    told = {
        "pid": os.getpid(),
        "event": event,
        "headers": {name.lower(): value for name, value in headers.items()},
        "variables": dict(os.environ),
        "folder": os.getcwd(),
        "seen at start": seen_at_start,
        "started ms": started_ms,
    }
    return call("POST", path + "/response", json.dumps(told).encode())


kept = []
started_ms = time.time() * 1000
seen_at_start = marks()
init = os.environ.get("INIT")
if init == "report":
    call("POST", "/init/error", b'{"errorType":"Init","errorMessage":"no start"}')
    sys.exit(1)
if init == "exit":
    sys.exit(7)
if init == "slow" or (init == "slow once" and "begun" not in seen_at_start):
    open(os.path.join(os.environ["MARKS"], "begun"), "w").close()
    time.sleep(1000)
while True:
    _, headers, payload = call("GET", "/invocation/next")
    answer(headers["Lambda-Runtime-Aws-Request-Id"], json.loads(payload), headers)
