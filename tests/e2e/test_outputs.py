# SPDX-License-Identifier: Apache-2.0
"""Outputs that users and programs read: JSON, metrics, gRPC, reports."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import grpc

import harness
from harness import E2ETest, eventually

SITE_FIELDS = {"function": str, "file": str, "line": int, "samples": int,
               "allocated_bytes": (int, float), "allocated_bytes_stderr": (int, float),
               "allocated_bytes_lower": (int, float), "allocated_bytes_upper": (int, float),
               "promoted_bytes": (int, float), "live_bytes": (int, float),
               "live_bytes_stderr": (int, float), "lifetime_seconds": dict, "callstack": list}
TARGET_FIELDS = {"pid": int, "comm": str, "exe": str, "runtime_version": str, "mode": str,
                 "state": str, "sampling_rate": (int, float), "dropped_events": int}
# Series that dashboards and scripts depend on, with their labels.
SERIES = {
    "memprofd_build_info": {"version", "revision"},
    "memprofd_target_info": {"pid", "program", "comm", "exe", "runtime_version", "mode"},
    "memprofd_allocated_bytes_total": {"pid", "program", "heap", "source"},
    "memprofd_promoted_bytes_total": {"pid", "program"},
    "memprofd_live_bytes": {"pid", "program"},
    "memprofd_deallocated_bytes_total": {"pid", "program", "heap"},
    "memprofd_samples_total": {"pid", "program", "event"},
    "memprofd_site_allocated_bytes_total": {"pid", "program", "function", "location"},
    "memprofd_site_promoted_bytes_total": {"pid", "program", "function", "location"},
    "memprofd_site_live_bytes": {"pid", "program", "function", "location"},
    "memprofd_site_lifetime_seconds_bucket": {"program", "function", "location", "le"},
    "memprofd_site_lifetime_seconds_count": {"program", "function", "location"},
    "memprofd_ocaml_minor_collections_total": {"pid", "program"},
    "memprofd_ocaml_major_collections_total": {"pid", "program"},
    "memprofd_ocaml_heap_bytes": {"pid", "program"},
    "memprofd_target_resident_bytes": {"pid", "program", "kind"},
    "memprofd_ocaml_gc_pause_seconds_bucket": {"program", "phase", "le"},
    "memprofd_dropped_events_total": {"stage", "reason"},
    "memprofd_given_up_events_total": {"stage", "reason"},
    "memprofd_target_paused_seconds_total": {"pid", "program"},
    "memprofd_attach_seconds": {"pid", "program"},
}


def protobuf_module(folder):
    """The messages of memprof.v1 as a Python module, generated from the .proto file."""
    subprocess.run(["protoc", f"-I{harness.ROOT}/proto", f"--python_out={folder}",
                    "memprof/v1/profiler.proto"], check=True, timeout=harness.TIMEOUT,
                   cwd=harness.ROOT)
    sys.path.insert(0, str(folder))
    try:
        from memprof.v1 import profiler_pb2
    finally:
        sys.path.remove(str(folder))
    return profiler_pb2


def make_messages(case):
    """Makes the modules for a class of tests, as its pb, in a shared folder."""
    case.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
    case.addClassCleanup(case.shared.cleanup)
    case.pb = protobuf_module(case.shared.name)


class Outputs(E2ETest):
    """All tests read one demo server, so they share one daemon."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.server = harness.Target("demo_server", "--self-load", "4")
        cls.addClassCleanup(cls.server.kill)
        cls.memprofd = harness.Daemon(cls.shared.name, "--pid", cls.server.pid, rate=1e-3)
        cls.addClassCleanup(cls.memprofd.kill)
        cls.memprofd.wait_state(cls.server.pid, "sampling")
        cls.pid = cls.server.pid
        eventually(lambda: cls.memprofd.metrics().total(
            "memprofd_samples_total", pid=cls.pid, event="dealloc") > 2_000, "enough samples")
        cls.channel = grpc.insecure_channel(f"unix:{cls.memprofd.socket}")
        cls.addClassCleanup(cls.channel.close)

    def check_fields(self, thing, fields):
        for name, kind in fields.items():
            self.assertIn(name, thing)
            self.assertIsInstance(thing[name], kind, name)

    # ------------------------------------------------------------ JSON

    def test_sites_json(self):
        sites = self.memprofd.sites(self.pid)
        self.assertGreater(len(sites), 5)
        for site in sites:
            self.check_fields(site, SITE_FIELDS)
            self.assertEqual({"p50", "p90", "p99"}, set(site["lifetime_seconds"]) & {"p50", "p90", "p99"})
            for frame in site["callstack"]:
                self.check_fields(frame, {"function": str, "file": str, "line": int})
        functions = {site["function"] for site in sites}
        for name in ("Sessions", "Request", "Order_parser"):
            self.assertTrue([f for f in functions if name in f], f"no site in {name}: {functions}")

    def test_targets_json(self):
        target = self.memprofd.targets()[self.pid]
        self.check_fields(target, TARGET_FIELDS)
        self.assertEqual("demo_server", target["comm"])
        self.assertTrue(target["exe"].endswith("/targets/demo_server"))
        self.assertRegex(target["runtime_version"], r"^4\.13")
        self.assertEqual("agent", target["mode"])
        self.assertEqual(1e-3, target["sampling_rate"])

    def test_the_leak_has_the_most_live_bytes_after_a_while(self):
        def leak_leads():
            site = max(self.memprofd.sites(self.pid), key=lambda s: s["live_bytes"])
            return "Sessions" in site["function"]
        eventually(leak_leads, "Sessions leads by live bytes", timeout=90)

    # ------------------------------------------------------------ metrics

    def test_series_and_their_labels(self):
        metrics = self.memprofd.metrics()
        for name, labels in SERIES.items():
            with self.subTest(series=name):
                found = metrics.find(name)
                self.assertTrue(found, f"no series {name}")
                for sample in found:
                    self.assertLessEqual(labels, set(sample.labels), sample)

    def test_what_it_does_for_those_who_ask(self):
        before = self.memprofd.metrics()
        self.memprofd.targets()
        self.assertEqual(404, harness.http_get(self.memprofd.url + "/nonsense")[0])
        after = self.memprofd.metrics()

        def grown(name, **labels):
            return after.total(name, **labels) - before.total(name, **labels)
        self.assertEqual(1, grown("memprofd_http_requests_total", handler="/metrics", method="GET", code="200"))
        self.assertEqual(1, grown("memprofd_http_requests_total", handler="other", method="GET", code="404"))
        self.assertEqual(1, grown("memprofd_http_request_duration_seconds_count", handler="/metrics"))
        self.assertGreater(grown("memprofd_http_request_duration_seconds_sum", handler="/metrics"), 0)
        method = {"grpc_service": "memprof.v1.Profiler", "grpc_method": "ListTargets"}
        self.assertEqual(1, grown("grpc_server_started_total", **method))
        self.assertEqual(1, grown("grpc_server_handled_total", grpc_code="OK", **method))
        self.assertEqual(1, grown("grpc_server_handling_seconds_count", **method))
        self.assertGreater(grown("memprofd_snapshot_duration_seconds_count"), 0)

    def test_version_and_revision_are_the_same_everywhere(self):
        [build] = self.memprofd.metrics().find("memprofd_build_info")
        version, revision = build.labels["version"], build.labels["revision"]
        changes = (harness.ROOT / "CHANGELOG.md").read_text()
        self.assertEqual(re.search(r"^## \[([0-9][0-9.]*)\]", changes, re.M).group(1), version)
        for program in ("memprofd", "memprofctl"):
            said = subprocess.run([harness.BUILD / program, "--version"], capture_output=True, text=True, check=True,
                                  timeout=harness.TIMEOUT).stdout
            self.assertEqual(f"{program} {version} ({revision})" if revision else f"{program} {version}", said.strip())

    def test_counters_are_named_and_typed_as_prometheus_wants(self):
        status, text = harness.http_get(self.memprofd.url + "/metrics")
        self.assertEqual(200, status)
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=False,
                              capture_output=True, timeout=harness.TIMEOUT)
        self.assertEqual(0, lint.returncode, lint.stdout + lint.stderr)

    def test_counters_do_not_fall(self):
        first, second = self.memprofd.metrics(), self.memprofd.metrics()
        for name, kind in first.types.items():
            if kind != "counter":
                continue
            for sample in first.find(name):
                later = second.find(name, **sample.labels)
                self.assertEqual(1, len(later), sample)
                self.assertGreaterEqual(later[0].value, sample.value, sample)

    def test_sites_add_up_to_the_target(self):
        """Live bytes match exactly; allocation may count twice for a site that left `other`."""
        metrics = self.memprofd.metrics()
        live = metrics.value("memprofd_live_bytes", pid=self.pid)
        self.assertGreater(live, 0)
        self.assertAlmostEqual(1.0, metrics.total("memprofd_site_live_bytes", pid=self.pid) / live, delta=1e-4)
        allocated = metrics.total("memprofd_allocated_bytes_total", pid=self.pid)
        by_site = metrics.total("memprofd_site_allocated_bytes_total", pid=self.pid)
        self.assertGreaterEqual(by_site / allocated, 0.999)

    def test_health_pages(self):
        for path in ("/-/ready", "/-/healthy", "/"):
            status, _ = harness.http_get(self.memprofd.url + path)
            self.assertEqual(200, status, path)
        self.assertEqual(404, harness.http_get(self.memprofd.url + "/nonsense")[0])

    # ------------------------------------------------------------ gRPC

    def raw_call(self, method, message):
        """A call with messages as bytes, which needs no generated module."""
        call = self.channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        return call(message, timeout=harness.TIMEOUT)

    def test_grpc_health(self):
        self.assertEqual(b"\x08\x01", self.raw_call("/grpc.health.v1.Health/Check", b""))

    def test_grpc_reflection_lists_the_service(self):
        list_services = b"\x3a\x00"  # field 7, list_services: ""
        call = self.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=bytes, response_deserializer=bytes)
        answer = next(iter(call(iter([list_services]), timeout=harness.TIMEOUT)))
        self.assertIn(b"memprof.v1.Profiler", answer)
        self.assertIn(b"grpc.health.v1.Health", answer)

    def test_grpc_sites_and_watch(self):
        messages = protobuf_module(self.shared.name)
        list_sites = self.channel.unary_unary(
            "/memprof.v1.Profiler/ListSites",
            request_serializer=messages.ListSitesRequest.SerializeToString,
            response_deserializer=messages.ListSitesResponse.FromString)
        answer = list_sites(messages.ListSitesRequest(
            pid=self.pid, limit=3, order=messages.MEASURE_ALLOCATED), timeout=harness.TIMEOUT)
        self.assertEqual(3, len(answer.sites))
        allocated = [site.allocated.bytes for site in answer.sites]
        self.assertEqual(sorted(allocated, reverse=True), allocated)
        self.assertEqual(messages.TARGET_STATE_SAMPLING, answer.target.state)

        watch = self.channel.unary_stream(
            "/memprof.v1.Profiler/WatchSites",
            request_serializer=messages.WatchSitesRequest.SerializeToString,
            response_deserializer=messages.ListSitesResponse.FromString)
        stream = watch(messages.WatchSitesRequest(
            query=messages.ListSitesRequest(pid=self.pid), interval_seconds=0.1), timeout=harness.TIMEOUT)
        times = [next(stream).time_unix_ns for _ in range(3)]
        stream.cancel()
        self.assertEqual(sorted(set(times)), times)

    def test_grpc_error_codes(self):
        messages = protobuf_module(self.shared.name)
        list_sites = self.channel.unary_unary(
            "/memprof.v1.Profiler/ListSites",
            request_serializer=messages.ListSitesRequest.SerializeToString,
            response_deserializer=messages.ListSitesResponse.FromString)
        with self.assertRaises(grpc.RpcError) as raised:
            list_sites(messages.ListSitesRequest(pid=1), timeout=harness.TIMEOUT)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, raised.exception.code())

    # ------------------------------------------------------------ for people

    def test_report_shows_errors_with_its_numbers(self):
        text = self.memprofd.ctl("report", "--pid", self.pid).stdout
        self.assertIn("±", text)
        self.assertIn("Sessions", text)
        self.assertNotIn("\x1b", text, "no escape sequences when not a terminal")

    def test_targets_table(self):
        text = self.memprofd.ctl("targets").stdout
        self.assertRegex(text, rf"(?m)^\s*{self.pid}\b.*demo_server.*sampling")

    def test_a_command_in_a_hint_reaches_the_same_memprofd(self):
        """Commands in hints name the socket in use if it is not the default."""
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            daemon = harness.Daemon(folder)
            self.addClassCleanup(daemon.popen.stdout.close)
            self.addClassCleanup(daemon.log.close)
            try:
                text = daemon.ctl("targets").stdout
                self.assertEqual(f"no targets; attach with: memprofctl attach PID --grpc.socket {daemon.socket}\n", text)
                refused = daemon.ctl("sites", check=False).stderr
                self.assertIn(f"`memprofctl attach PID --grpc.socket {daemon.socket}`", refused)
            finally:
                daemon.kill()

    def test_info(self):
        info = json.loads(self.memprofd.ctl("info", "-o", "json").stdout)
        status, text = harness.http_get(f"{self.memprofd.url}/api/v1/server")
        self.assertEqual(200, status)
        changing = {"uptime_seconds"}
        self.assertEqual({k: v for k, v in json.loads(text).items() if k not in changing},
                         {k: v for k, v in info.items() if k not in changing})
        self.assertEqual(os.uname().release, info["kernel_release"])
        text = self.memprofd.ctl("info").stdout
        for word in ("memprofd " + info["version"], info["revision"], "API v1", "pages", "100 rows", "gRPC", f"rules       --pid {self.pid}",
                     "state       not stored"):
            self.assertIn(word, text)

    def test_doctor(self):
        text = self.memprofd.ctl("doctor", "--pid", self.pid).stdout
        for subject in ("kernel", "privilege", "agent", "capture probe"):
            self.assertIn(subject, text.lower())

    def test_start_says_what_it_attached_to_and_where_to_look(self):
        said = self.memprofd.said()
        for word in (str(self.pid), "demo_server", "/metrics", str(self.memprofd.port)):
            self.assertIn(word, said)
        self.assertTrue(re.search(r"1e-0?3|0\.001", said), said)


class Demo(unittest.TestCase):
    def test_a_newcomer_sees_the_leak(self):
        """Runs what `make demo` runs after the build."""
        done = subprocess.run([harness.ROOT / "tests/e2e/demo.sh", harness.BUILD, "5"], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT * 2)
        self.assertEqual(0, done.returncode, done.stdout[-2000:] + done.stderr)
        self.assertEqual("", done.stderr)
        live, _, report = done.stdout.partition("=== the same as a report")
        for part in (live, report):
            self.assertIn("Sessions.make_session", part)
        self.assertIn("On your own server", report)


if __name__ == "__main__":
    unittest.main()
