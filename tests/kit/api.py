# SPDX-License-Identifier: Apache-2.0
"""Clients for the daemon's gRPC and HTTP interfaces."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request

import grpc

import harness


class Api:
    """Calls of memprof.v1 by name: api.ListSites(pid=1, ...) returns the answer's message."""

    def __init__(self, pb, daemon):
        self.pb = pb
        self.url = daemon.url
        self.channel = grpc.insecure_channel(f"unix:{daemon.socket}")

    def close(self):
        self.channel.close()

    def __getattr__(self, method):
        request_type = getattr(self.pb, method + "Request")
        service = "Trace" if "Trace" in method else "Profiler"
        call = self.channel.unary_unary(
            f"/memprof.v1.{service}/{method}", request_serializer=request_type.SerializeToString,
            response_deserializer=getattr(self.pb, method + "Response").FromString)
        return lambda **fields: call(request_type(**fields), timeout=harness.TIMEOUT)

    def get(self, path, **parameters):
        """(status, text) of a GET; a list repeats a parameter."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=harness.TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def json(self, name, **parameters):
        """The answer of /api/v1/NAME."""
        status, text = self.get(f"/api/v1/{name}", **parameters)
        if status != 200:
            raise AssertionError(f"/api/v1/{name} {parameters} answered {status}: {text}")
        return json.loads(text)


# ---------------------------------------------------------------- as the page asks

PAGE = {"Content-Type": "application/json", "X-Memprofd-Control": "1"}


def ask(daemon, method, path, body=None, headers=None, timeout=harness.TIMEOUT):
    """(status, body) of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def post(daemon, what, headers=None, **body):
    status, text = ask(daemon, "POST", f"/api/v1/{what}", body, {**PAGE, **(headers or {})})
    return status, text.decode()
