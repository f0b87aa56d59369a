# SPDX-License-Identifier: Apache-2.0
"""Checks the files for Grafana, Prometheus and systemd with their own tools: Grafana's
schema, promtool, systemd-analyze."""

import copy
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import grafana_npm
import harness
import yaml
from grafana import FOLDER, RULES, dashboards, panels_of

GRAFANA = FOLDER.parent
DOCS = harness.ROOT / "docs"
UIDS = ["memprofd-gc", "memprofd-health", "memprofd-overview", "memprofd-site", "memprofd-target",
        "memprofd-values"]


def first_panel(dashboard, kind):
    return next(panel for panel in panels_of(dashboard) if panel["type"] == kind)


# Mistakes that the check of the schema has to detect.
MISTAKES = {
    "misspelt-option": lambda d: first_panel(d, "stat")["options"].update(colourMode="value"),
    "no-such-value": lambda d: first_panel(d, "timeseries")["options"]["legend"].update(placement="left"),
    "misspelt-field-setting": lambda d: first_panel(d, "timeseries")["fieldConfig"]["defaults"]["custom"].update(lineWidht=2),
    "misspelt-override": lambda d: first_panel(d, "table")["fieldConfig"]["overrides"][0]["properties"].append(
        {"id": "custom.wide", "value": 3}),
    "override-of-another-type": lambda d: first_panel(d, "table")["fieldConfig"]["overrides"][0]["properties"].append(
        {"id": "unit", "value": 3}),
    "text-for-a-number": lambda d: first_panel(d, "heatmap")["gridPos"].update(w="12"),
    "query-without-expression": lambda d: first_panel(d, "stat")["targets"][0].pop("expr"),
    "unknown-panel": lambda d: first_panel(d, "stat").update(type="stats"),
    "unknown-key": lambda d: d.update(autorefresh=True),
    "variable-of-no-type": lambda d: d["templating"]["list"][1].update(type="promql"),
}


class Dashboards(unittest.TestCase):
    def test_follow_the_published_schema(self):
        self.assertEqual({}, grafana_npm.schema_errors({d["uid"]: json.dumps(d) for _, d in dashboards()}))

    def test_the_schema_finds_mistakes(self):
        original = dict(dashboards())["memprofd-target.json"]
        wrong = {}
        for name, make in MISTAKES.items():
            wrong[name] = copy.deepcopy(original)
            make(wrong[name])
        errors = grafana_npm.schema_errors({name: json.dumps(d) for name, d in wrong.items()})
        self.assertEqual(set(MISTAKES), set(errors))

    def test_are_what_their_sources_generate(self):
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            grafana_npm.generate(pathlib.Path(folder))
            generated = {f.name: f.read_text() for f in pathlib.Path(folder).glob("*.json")}
        committed = {f.name: f.read_text() for f in FOLDER.glob("*.json")}
        self.assertEqual(sorted(generated), sorted(committed))
        for name, text in generated.items():
            self.assertEqual(text, committed[name], f"{name} is old: make grafana-dashboards")

    def test_uids_stay(self):
        """Links, bookmarks and alerts rely on the uids."""
        self.assertEqual(UIDS, [d["uid"] for _, d in dashboards()])
        for name, dashboard in dashboards():
            self.assertEqual(name, dashboard["uid"] + ".json")

    def test_can_be_imported_and_provisioned(self):
        for name, dashboard in dashboards():
            with self.subTest(dashboard=name):
                self.assertIsNone(dashboard["id"])
                self.assertEqual([], dashboard["__inputs"], "provisioning does not fill these in")
                first = dashboard["templating"]["list"][0]
                self.assertEqual(("datasource", "prometheus"), (first["type"], first["query"]))
                panels = list(panels_of(dashboard))
                ids = [panel["id"] for panel in panels]
                self.assertEqual(len(ids), len(set(ids)))
                needed = {r["id"] for r in dashboard["__requires"] if r["type"] == "panel"}
                self.assertEqual({panel["type"] for panel in panels}, needed)

    def test_use_the_chosen_data_source_only(self):
        chosen = {"type": "prometheus", "uid": "${datasource}"}

        def check(node):
            if isinstance(node, dict):
                if "datasource" in node:
                    self.assertEqual(chosen, node["datasource"])
                for value in node.values():
                    check(value)
            elif isinstance(node, list):
                for value in node:
                    check(value)
        for name, dashboard in dashboards():
            with self.subTest(dashboard=name):
                check(dashboard)

    def test_panels_do_not_overlap(self):
        for name, dashboard in dashboards():
            taken = {}
            for panel in dashboard["panels"]:
                grid = panel["gridPos"]
                self.assertLessEqual(grid["x"] + grid["w"], 24)
                for cell in ((x, y) for x in range(grid["x"], grid["x"] + grid["w"])
                             for y in range(grid["y"], grid["y"] + grid["h"])):
                    self.assertNotIn(cell, taken, f"{name}: {panel['title']} and {taken.get(cell)}")
                    taken[cell] = panel["title"]

    def test_every_panel_has_a_description(self):
        for name, dashboard in dashboards():
            for panel in panels_of(dashboard):
                with self.subTest(dashboard=name, panel=panel["title"]):
                    self.assertTrue(panel["description"])
                    refs = [target["refId"] for target in panel["targets"]]
                    self.assertEqual(len(refs), len(set(refs)))

    def test_provisioning_files(self):
        (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/memprofd.yaml").read_text())["providers"]
        self.assertEqual(("file", "/usr/local/share/memprofd/grafana/dashboards"),
                         (provider["type"], provider["options"]["path"]))
        (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/memprofd.yaml").read_text())["datasources"]
        self.assertEqual(("prometheus", "proxy"), (source["type"], source["access"]))
        scrape = yaml.safe_load((RULES / "scrape.yml").read_text())["scrape_configs"][0]
        self.assertEqual(scrape["scrape_interval"], source["jsonData"]["timeInterval"])
        self.assertRegex(source["url"], r"^http://127\.0\.0\.1:\d+$")

    def test_each_is_shown_in_the_documentation(self):
        text = (DOCS / "grafana.md").read_text()
        for _, dashboard in dashboards():
            picture = f"pictures/grafana-{dashboard['uid'].split('-')[1]}.png"
            with self.subTest(dashboard=dashboard["uid"]):
                self.assertIn(f"({picture})", text)
                self.assertIn(f"`{dashboard['uid']}`", text)
                self.assertGreater((DOCS / picture).stat().st_size, 20_000)


class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True,
                              timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_are_valid(self):
        self.promtool("check", "rules", "rules.yml", "alerts.yml")

    def test_do_what_they_say(self):
        self.promtool("test", "rules", "tests.yml")

    def test_every_alert_is_tested_both_ways(self):
        alerts = re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text())
        tests = [test for group in yaml.safe_load((RULES / "tests.yml").read_text())["tests"]
                 for test in group.get("alert_rule_test", ())]
        for alert in alerts:
            outcomes = {bool(test["exp_alerts"]) for test in tests if test["alertname"] == alert}
            fired_for = [test for test in tests if test["alertname"] == alert and test["exp_alerts"]]
            with self.subTest(alert=alert):
                self.assertTrue(fired_for)
                self.assertIn(False, outcomes, "nothing shows that it can keep quiet")

    def test_scrape_example_is_valid(self):
        self.promtool("check", "config", "--syntax-only", "scrape.yml")


class Service(unittest.TestCase):
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
