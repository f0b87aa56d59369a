"""Every query of every dashboard, rule and alert, run against a real Prometheus
that scrapes a real memprofd on the demo server."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.parse

import harness
from harness import Process, eventually, http_get

DASHBOARDS = harness.ROOT / "dashboards"
RULES = DASHBOARDS / "prometheus"
# The expressions of rules that need half an hour and more of data are run for
# errors only; the others must give results within the test.
NEEDS_HISTORY = ("offset", "rate1h", "growth_sigmas")


class Prometheus(Process):
    """A Prometheus with its own storage that scrapes one memprofd every second."""

    def __init__(self, folder, memprofd):
        folder = pathlib.Path(folder) / "prometheus"
        folder.mkdir()
        self.port = harness.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES / "rules.yml"), str(RULES / "alerts.yml")],
            "scrape_configs": [{"job_name": "memprofd",
                                "static_configs": [{"targets": [f"127.0.0.1:{memprofd.port}"]}]}]}))
        super().__init__(["/usr/bin/prometheus", f"--config.file={config}",
                          f"--storage.tsdb.path={folder}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL)

    def get(self, path, **parameters):
        """The data of an API answer; AssertionError with Prometheus's own words otherwise."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            status, body = http_get(url)
        except OSError as error:
            raise AssertionError(f"Prometheus does not answer: {error}") from None
        answer = json.loads(body)
        if status != 200 or answer["status"] != "success":
            raise AssertionError(f"{parameters}: {answer.get('error')}")
        return answer["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]


def panels_of(dashboard):
    """All panels, those inside collapsed rows too."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def filled_in(expression, variables):
    """Grafana's variables replaced as Grafana does; AssertionError when one is left."""
    for name, value in variables.items():
        expression = expression.replace("${" + name + "}", value)
        expression = re.sub(rf"\${name}\b", lambda _: value, expression)
    if "$" in expression:
        raise AssertionError(f"unknown variable in {expression}")
    return expression


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = cls.start(harness.Target("demo_server", "--self-load", "4"))
        cls.memprofd = cls.start(harness.Daemon(folder.name, "--pid", cls.server.pid, rate=1e-3))
        cls.memprofd.wait_state(cls.server.pid, "sampling")
        cls.prometheus = cls.start(Prometheus(folder.name, cls.memprofd))
        cls.variables = {"job": "memprofd", "instance": f"127.0.0.1:{cls.memprofd.port}",
                         "pid": str(cls.server.pid), "top": "5", "__rate_interval": "10s",
                         "__interval": "5s", "__range": "1m"}
        eventually(cls.has_enough_data, "Prometheus has scraped memprofd a few times", timeout=60,
                   interval=0.2)

    @classmethod
    def start(cls, process):
        cls.addClassCleanup(process.kill)
        return process

    @classmethod
    def has_enough_data(cls):
        """Rates need two scrapes; lifetimes need blocks that died between them."""
        counts = cls.prometheus.query("count_over_time(up[1m]) >= 6")
        died = cls.prometheus.query('rate(memprofd_deallocated_bytes_total{heap="major"}[10s]) > 0')
        recorded = cls.prometheus.query('pid:memprofd_allocated_bytes:rate1m')
        return counts and died and recorded

    def dashboards(self):
        files = sorted(DASHBOARDS.glob("grafana/*.json"))
        self.assertTrue(files)
        return [(f.name, json.loads(f.read_text())) for f in files]

    def test_every_panel_query_has_results(self):
        queries = 0
        for name, dashboard in self.dashboards():
            for panel in panels_of(dashboard):
                for target in panel.get("targets", []):
                    with self.subTest(dashboard=name, panel=panel["title"], query=target["expr"]):
                        expression = filled_in(target["expr"], self.variables)
                        result = self.prometheus.query(expression)
                        self.assertTrue(result, "no result")
                        queries += 1
        self.assertGreater(queries, 25)

    def test_panel_queries_work_with_all_selected(self):
        everything = dict(self.variables, job=".*", instance=".*", pid=".*")
        for name, dashboard in self.dashboards():
            for panel in panels_of(dashboard):
                for target in panel.get("targets", []):
                    with self.subTest(dashboard=name, panel=panel["title"]):
                        self.assertTrue(self.prometheus.query(filled_in(target["expr"], everything)))

    def test_legends_name_labels_that_exist(self):
        for name, dashboard in self.dashboards():
            for panel in panels_of(dashboard):
                for target in panel.get("targets", []):
                    wanted = set(re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]))
                    with self.subTest(dashboard=name, panel=panel["title"]):
                        for series in self.prometheus.query(filled_in(target["expr"], self.variables)):
                            self.assertLessEqual(wanted, set(series["metric"]), series["metric"])

    def test_variables_find_their_values(self):
        for name, dashboard in self.dashboards():
            found = dashboard["templating"]["list"]
            for variable in (v for v in found if v["type"] == "query"):
                with self.subTest(dashboard=name, variable=variable["name"]):
                    match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                    series, label = filled_in(match.group(1), self.variables), match.group(2)
                    values = self.prometheus.get(f"label/{label}/values", **{"match[]": series})
                    self.assertIn(self.variables[variable["name"]], values)

    def test_dashboards_can_be_imported(self):
        for name, dashboard in self.dashboards():
            with self.subTest(dashboard=name):
                inputs = {"${" + i["name"] + "}" for i in dashboard["__inputs"]}
                ids = [panel["id"] for panel in panels_of(dashboard)]
                self.assertEqual(len(ids), len(set(ids)))
                self.assertIsNone(dashboard["id"])
                for panel in panels_of(dashboard):
                    if panel["type"] != "row":
                        self.assertIn(panel["datasource"]["uid"], inputs)
                        self.assertTrue(panel["targets"])
                    refs = [target["refId"] for target in panel.get("targets", [])]
                    self.assertEqual(len(refs), len(set(refs)), panel["title"])

    def test_every_rule_is_healthy(self):
        expected = sum(text.count("- record:") + text.count("- alert:")
                       for text in ((RULES / f).read_text() for f in ("rules.yml", "alerts.yml")))

        def evaluated():
            rules = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
            self.assertEqual(expected, len(rules))
            self.assertNotIn("unknown", [rule["health"] for rule in rules])
            return rules
        for rule in eventually(evaluated, "all rules were evaluated"):
            with self.subTest(rule=rule["name"]):
                self.assertEqual("ok", rule["health"], rule.get("lastError"))
                if rule["type"] == "recording" and not any(w in rule["query"] + rule["name"] for w in NEEDS_HISTORY):
                    eventually(lambda: self.prometheus.query(rule["name"]), f"results of {rule['name']}",
                               timeout=60, interval=0.5)

    def test_no_alert_fires_on_a_healthy_memprofd(self):
        alerts = [a["labels"]["alertname"] for a in self.prometheus.get("alerts")["alerts"]
                  if a["state"] == "firing"]
        self.assertEqual([], alerts)


class Files(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_rules_are_valid(self):
        self.promtool("check", "rules", "rules.yml", "alerts.yml")

    def test_rules_do_what_they_say(self):
        self.promtool("test", "rules", "tests.yml")

    def test_every_alert_is_tested(self):
        alerts = re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text())
        tested = (RULES / "tests.yml").read_text()
        for alert in alerts:
            self.assertIn(f"alertname: {alert}", tested)

    def test_scrape_example_is_valid(self):
        self.promtool("check", "config", "--syntax-only", "scrape.yml")

    def test_systemd_unit_is_valid(self):
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            unit = pathlib.Path(folder) / "memprofd.service"
            text = (harness.ROOT / "deploy/memprofd.service.in").read_text()
            text = text.replace("@PREFIX@/sbin/memprofd", str(harness.BUILD / "memprofd"))
            unit.write_text(text.replace("@PREFIX@", "/usr/local"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True,
                                  text=True, timeout=harness.TIMEOUT, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()
