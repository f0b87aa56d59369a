# SPDX-License-Identifier: Apache-2.0
"""Alerts on a real program: they fire for the demo server's leak and for its end, and not
for its cache. The rules are those of dashboards/prometheus, with seconds instead of hours."""

import pathlib
import re
import tempfile
import unittest

import harness
from grafana import RULES, Prometheus
from harness import eventually

FASTER = {r'older_than="600"': 'older_than="60"', r"30m": "20s", r"1h": "40s", r"for: \d+m": "for: 5s",
          r"\b10m": "30s"}
TIMEOUT = 240  # seconds; the alert for the leak fires after about 110


def write_faster(folder):
    folder.mkdir()
    for name in ("rules.yml", "alerts.yml"):
        text = (RULES / name).read_text()
        for slow, fast in FASTER.items():
            text = re.sub(slow, fast, text)
        (folder / name).write_text(text)
    return folder


class Alerts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.target = cls.start(harness.Target("demo_server", "--self-load", "2", "--rate", "1000"))
        cls.memprofd = cls.start(harness.Daemon(folder.name, "--pid", cls.target.pid, rate=1e-3))
        cls.memprofd.wait_state(cls.target.pid, "sampling")
        rules = write_faster(pathlib.Path(folder.name) / "rules")
        cls.prometheus = cls.start(Prometheus(folder.name, [cls.memprofd.port], rules)).client

    @classmethod
    def start(cls, process):
        cls.addClassCleanup(process.kill)
        return process

    def firing(self, name):
        return [alert for alert in self.prometheus.get("alerts")["alerts"]
                if alert["labels"]["alertname"] == name and alert["state"] == "firing"]

    def test_alerts_fire_for_the_leak_and_for_the_end(self):
        suspected = eventually(lambda: self.firing("OcamlLeakSuspected"), "the leak is suspected",
                               timeout=TIMEOUT)
        self.assertEqual({"Demo_server.Sessions.make_session"}, {a["labels"]["function"] for a in suspected})
        self.assertRegex(suspected[0]["annotations"]["summary"],
                         rf"^Demo_server.Sessions.make_session \(.*:\d+\) of demo_server {self.target.pid} keeps growing$")
        live = {s["metric"]["function"]: float(s["value"][1]) for s in self.prometheus.query(
            "sum by (function) (memprofd_site_live_bytes)")}
        self.assertGreater(live["Demo_server.Cache.copy"], 1e6, "the cache was there to be mistaken")
        self.assertEqual([], self.firing("MemprofdTargetLost"))
        self.target.kill()
        (failed,) = eventually(lambda: self.firing("OcamlProgramFailed"), "its death is noticed", timeout=60)
        self.assertEqual(f"demo_server {self.target.pid} ended: signal SIGKILL", failed["annotations"]["summary"])
        self.assertEqual([], self.firing("MemprofdTargetLost"))


if __name__ == "__main__":
    unittest.main()
