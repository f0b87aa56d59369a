# SPDX-License-Identifier: Apache-2.0
"""Runs every query of every dashboard, rule and alert against a real Prometheus
that scrapes two real memprofds on two demo servers."""

import dataclasses
import itertools
import math
import pathlib
import re
import tempfile
import threading
import time
import unittest
import urllib.parse

import grafana
import harness
from browser import Browser
from grafana import RULES, Prometheus, dashboards, filled_in, panels_of, resolve, targets_of
from harness import eventually
from render_dashboards import data_of, draw, write_page

# Rule expressions that need at least half an hour of data are only checked for
# errors; the others must give results within the test.
NEEDS_HISTORY = ("offset", "rate1h", "growth_sigmas")
BUILTIN = {"__rate_interval": "10s"}
SITE = "Demo_server.Cache.copy"  # has blocks that live, died young and died old
STEP = 2


def numbers_of(series):
    for _, value in series.get("values", [series.get("value")]):
        yield float(value)


@dataclasses.dataclass
class Query:
    file: str
    panel: dict
    target: dict
    series: list  # the answer

    def label(self):
        return {"dashboard": self.file, "panel": self.panel["title"], "query": self.target["expr"]}


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.servers = [cls.start(harness.Target("demo_server", "--self-load", "2", "--rate", rate))
                       for rate in ("1000", "300")]
        kept = cls.folder / "heaps"
        kept.mkdir()
        cls.teller = cls.start(harness.Target("reports"))  # publishes values
        cls.memprofds = [cls.start(harness.Daemon(folder.name, "--pid", server.pid, *more, "--snapshot.directory", kept,
                                                  "--snapshot.cmt", harness.BUILD / "targets" / "obj", rate=1e-3))
                         for server, more in zip(cls.servers, (("--pid", cls.teller.pid), ()))]
        for memprofd, server in zip(cls.memprofds, cls.servers):
            memprofd.wait_state(server.pid, "sampling")
        cls.memprofds[0].ctl("snapshot", "take", "--pid", cls.servers[0].pid, "--max-pause", "10s", "--keep")
        cls.has_told = threading.Event()
        teller = threading.Thread(target=cls.tell)
        cls.addClassCleanup(teller.join)
        cls.addClassCleanup(cls.has_told.set)
        teller.start()
        cls.memprofds[0].wait_state(cls.teller.pid, "sampling")
        cls.server = cls.start(Prometheus(folder.name, [memprofd.port for memprofd in cls.memprofds]))
        cls.prometheus = cls.server.client
        cls.pid = str(cls.servers[0].pid)
        eventually(cls.has_enough_data, "Prometheus has scraped both memprofds for a while", timeout=90)

    @classmethod
    def start(cls, process):
        cls.addClassCleanup(process.kill)
        return process

    @classmethod
    def tell(cls):
        """Changes points, timers, phases, values, tables and tags until the end. The program is idle most of the time,
        so that almost every scrape finds all of them."""
        cls.teller.command("mark 2")
        for n in itertools.count(1):
            for command in (f"hit {n % 10}", "time 10", f"set {n % 900}", "phase enter", "minor", "phase leave"):
                cls.teller.command(command)
            if cls.has_told.wait(1):
                return

    @classmethod
    def has_enough_data(cls):
        """Rates and their errors need scrapes 10 s apart; lifetimes need blocks that died."""
        ask = cls.prometheus.query
        return (len(ask("count_over_time(memprofd_target_up[1m]) >= 20")) == 3
                and len(ask('rate(memprofd_deallocated_bytes_total{heap="major"}[10s]) > 0')) >= 2
                and ask('rate(memprofd_timer_stops_total{phase!=""}[10s]) > 0')
                and ask(f'rate(memprofd_site_lifetime_seconds_count{{function="{SITE}"}}[10s]) > 0')
                and ask("pid:memprofd_allocated_bytes:rate1m")
                and ask("memprofd_heap_class_bytes"))

    def resolved(self, dashboard, **wanted):
        """The dashboard's variables; where one value has to be chosen, the demo server and its SITE."""
        names = {v["name"] for v in dashboard["templating"]["list"] if not v.get("includeAll")}
        wanted = {"program": "demo_server", "function": SITE, **wanted}
        now = time.time()
        return resolve(dashboard, self.prometheus, {k: v for k, v in wanted.items() if k in names},
                       now - 60, now, BUILTIN)

    def ask(self, target, values):
        """The series of a panel's query, requested as Grafana does."""
        expression, now = filled_in(target["expr"], values), time.time()
        if target.get("instant"):
            return self.prometheus.query(expression)
        return self.prometheus.query_range(expression, now - 20, now, STEP)

    def each_query(self, **wanted):
        """Every query of every panel."""
        for name, dashboard in dashboards():
            values = self.resolved(dashboard, **wanted).values
            for panel, target in targets_of(dashboard):
                yield Query(name, panel, target, self.ask(target, values))

    def assert_data(self, series):
        self.assertTrue(series, "no series")
        self.assertTrue(any(math.isfinite(v) for one in series for v in numbers_of(one)),
                        "no number in any series")

    # ------------------------------------------------------------ panels

    def test_every_panel_query_has_data(self):
        queries = 0
        for query in self.each_query():
            with self.subTest(**query.label()):
                self.assert_data(query.series)
            queries += 1
        self.assertGreater(queries, 150)

    def test_site_queries_have_data_with_several_functions(self):
        both = [SITE, "Demo_server.Sessions.make_session"]
        for query in self.each_query(function=both):
            if query.file == "memprofd-site.json":
                with self.subTest(**query.label()):
                    self.assert_data(query.series)

    def test_legends_name_labels_that_exist(self):
        for query in self.each_query():
            wanted = set(re.findall(r"{{\s*(\w+)\s*}}", query.target["legendFormat"]))
            for labels in (one["metric"] for one in query.series):
                # Neither the sum of the other sites nor runtime functions have a location.
                without = {"location"} if "." not in labels.get("function", ".") else set()
                with self.subTest(**query.label()):
                    self.assertLessEqual(wanted - without, set(labels))

    def test_tables_show_all_labels_and_no_others(self):
        for query in self.each_query():
            if query.panel["type"] != "table":
                continue
            (organize,) = [t["options"] for t in query.panel["transformations"] if t["id"] == "organize"]
            columns = {field for field in organize["indexByName"] if not field.startswith("Value #")}
            labels = set().union(*(one["metric"] for one in query.series)) - {"__name__"}
            with self.subTest(**query.label()):
                self.assertEqual(columns, labels)

    def test_overrides_find_their_series(self):
        for name, dashboard in dashboards():
            values = self.resolved(dashboard).values
            for panel in panels_of(dashboard):
                names = {re.sub(r"{{(\w+)}}", lambda m: one["metric"].get(m.group(1), ""), target["legendFormat"])
                         for target in panel["targets"] for one in self.ask(target, values)}
                for transformation in panel.get("transformations", []):
                    names |= set(transformation["options"].get("renameByName", {}).values())
                for override in panel["fieldConfig"]["overrides"]:
                    matcher = override["matcher"]
                    pattern = matcher["options"] if matcher["id"] == "byRegexp" else re.escape(matcher["options"])
                    with self.subTest(dashboard=name, panel=panel["title"], matcher=matcher):
                        self.assertTrue(any(re.fullmatch(pattern, one) for one in names), names)

    def test_annotation_queries_are_valid(self):
        for name, dashboard in dashboards():
            values = self.resolved(dashboard).values
            self.assertTrue(dashboard["annotations"]["list"])
            for annotation in dashboard["annotations"]["list"]:
                with self.subTest(dashboard=name, annotation=annotation["name"]):
                    self.assertEqual(annotation["expr"], annotation["target"]["expr"])
                    self.ask(annotation["target"], values)

    def test_snapshots_are_marked_where_they_were_taken(self):
        memprofd = self.memprofds[0]
        memprofd.ctl("snapshot", "take", "--pid", self.pid, "--max-pause", "10s", "--out", self.folder / "a.heap")
        for name in ("memprofd-target.json", "memprofd-gc.json"):
            (dashboard,) = [d for file, d in dashboards() if file == name]
            (marks,) = [a for a in dashboard["annotations"]["list"] if a["name"] == "Heap snapshots"]
            values = self.resolved(dashboard).values
            with self.subTest(dashboard=name):
                marked = eventually(lambda marks=marks, values=values: self.ask(marks["target"], values),
                                    "the snapshot is marked")
                self.assertEqual({self.pid}, {one["metric"]["pid"] for one in marked})

    def test_the_heap_of_the_last_snapshot_is_shown_by_type(self):
        (query,) = [query for query in self.each_query() if "memprofd_heap_class_bytes" in query.target["expr"]]
        classes = {one["metric"]["class"] for one in query.series}
        self.assertLess({"Demo_server.Sessions.session", "other"}, classes)
        self.assertEqual(21, len(classes), "those of the largest, and the rest")

    # ------------------------------------------------------------ variables

    def offered(self, dashboard, name, **chosen):
        """The values that a variable offers, with the preceding variables as chosen."""
        (variable,) = [v for v in dashboard["templating"]["list"] if v["name"] == name]
        now = time.time()
        resolved = resolve(dashboard, self.prometheus, chosen, now - 60, now, BUILTIN)
        return [value for _, value in grafana.options_of(variable, resolved.values, self.prometheus, now - 60, now)]

    def test_programs_are_offered_by_name(self):
        for name, dashboard in dashboards():
            with self.subTest(dashboard=name):
                self.assertEqual(["demo_server", "reports"], self.offered(dashboard, "program"))

    def test_processes_are_those_of_the_program(self):
        (target,) = [d for name, d in dashboards() if name == "memprofd-target.json"]
        self.assertEqual({str(server.pid) for server in self.servers}, set(self.offered(target, "pid", program="demo_server")))
        self.assertEqual([str(self.teller.pid)], self.offered(target, "pid", program="reports"))

    def test_instances_narrow_the_programs(self):
        (overview,) = [d for name, d in dashboards() if name == "memprofd-overview.json"]
        instance = [f"127.0.0.1:{self.memprofds[1].port}"]
        self.assertEqual(["demo_server"], self.offered(overview, "program", instance=instance))
        self.assertEqual([str(self.servers[1].pid)], self.offered(overview, "pid", instance=instance))

    def test_a_process_can_be_looked_at_alone(self):
        (target,) = [d for name, d in dashboards() if name == "memprofd-target.json"]
        now = time.time()
        alone = resolve(target, self.prometheus, {"program": "demo_server", "pid": [self.pid]}, now - 60, now, BUILTIN).values
        (processes,) = [panel for panel in panels_of(target) if panel["title"] == "Processes"]
        for query in processes["targets"]:
            with self.subTest(query=query["expr"]):
                self.assertEqual({self.pid}, {one["metric"]["pid"] for one in self.ask(query, alone)})

    def test_rate_changes_are_marked(self):
        memprofd = self.memprofds[1]
        memprofd.ctl("rate", "5e-4", "--pid", self.servers[1].pid)
        for name in ("memprofd-target.json", "memprofd-site.json", "memprofd-gc.json", "memprofd-overview.json"):
            (dashboard,) = [d for file, d in dashboards() if file == name]
            (marks,) = [a for a in dashboard["annotations"]["list"] if a["name"] == "Sampling rate changes"]
            values = self.resolved(dashboard).values
            with self.subTest(dashboard=name):
                marked = eventually(lambda marks=marks, values=values: self.ask(marks["target"], values),
                                    "the change is marked")
                self.assertEqual({str(self.servers[1].pid)}, {one["metric"]["pid"] for one in marked})

    def test_functions_with_special_characters_are_found(self):
        (site,) = [d for name, d in dashboards() if name == "memprofd-site.json"]
        (variable,) = [v for v in site["templating"]["list"] if v["name"] == "function"]
        now = time.time()
        offered = [v for _, v in grafana.options_of(variable, self.resolved(site).values, self.prometheus, now - 60, now)]
        special = [f for f in offered if re.search(r"[()^*+|]", f)]
        self.assertTrue(special, offered)
        for function in special:
            values = self.resolved(site, function=function).values
            found = self.prometheus.query(filled_in('memprofd_site_live_bytes{function=~"$function"}', values))
            with self.subTest(function=function):
                self.assertEqual({function}, {one["metric"]["function"] for one in found})

    def test_the_function_with_the_most_live_bytes_is_first(self):
        (site,) = [d for name, d in dashboards() if name == "memprofd-site.json"]
        (variable,) = [v for v in site["templating"]["list"] if v["name"] == "function"]
        now = time.time()
        offered = grafana.options_of(variable, self.resolved(site).values, self.prometheus, now - 60, now)
        self.assertIn(offered[0][0], (SITE, "Demo_server.Sessions.make_session"))

    # ------------------------------------------------------------ links

    def test_dashboards_lead_to_each_other(self):
        known = {d["uid"]: {v["name"]: v for v in d["templating"]["list"]} for _, d in dashboards()}
        for name, dashboard in dashboards():
            there = set()
            for link in dashboard["links"]:
                uid, _, query = link["url"].removeprefix("/d/").partition("?")
                there.add(uid)
                with self.subTest(dashboard=name, link=link["url"]):
                    self.assertTrue(link["keepTime"])
                    for variable in re.findall(r"\${(\w+):queryparam}", query):
                        here = known[dashboard["uid"]][variable]
                        self.assertIn(variable, known[uid])
                        self.assertTrue(known[uid][variable].get("includeAll") or not here.get("includeAll"),
                                        f"{variable} may be All, which {uid} does not know")
            self.assertEqual(set(known) - {dashboard["uid"]}, there)

    def test_links_lead_to_dashboards_that_understand_them(self):
        known = {d["uid"]: {v["name"] for v in d["templating"]["list"]} for _, d in dashboards()}
        links = 0
        for name, dashboard in dashboards():
            for panel in panels_of(dashboard):
                for link in (link for override in panel["fieldConfig"]["overrides"]
                             for prop in override["properties"] if prop["id"] == "links" for link in prop["value"]):
                    with self.subTest(dashboard=name, panel=panel["title"], link=link["url"]):
                        self.check_link(link["url"], panel, known[dashboard["uid"]], known)
                        links += 1
        self.assertGreater(links, 2)

    def check_link(self, url, panel, here, known):
        uid, _, query = url.removeprefix("/d/").partition("?")
        self.assertIn(uid, known)
        kept = set(re.findall(r"\${(\w+):queryparam}", query))
        fields = dict(re.findall(r"var-(\w+)=\${__data\.fields\.(\w+)}", query))
        self.assertLessEqual(kept, here)
        self.assertLessEqual(kept | set(fields), known[uid])
        (organize,) = [t["options"] for t in panel["transformations"] if t["id"] == "organize"]
        self.assertLessEqual(set(fields.values()), set(organize["indexByName"]))
        # The link names one program and one site, whatever is selected here.
        self.assertLessEqual({"datasource", "job", "instance", "program"}, kept | set(fields))

    def test_alerts_lead_to_dashboards_that_understand_them(self):
        known = {d["uid"]: {v["name"] for v in d["templating"]["list"]} for _, d in dashboards()}
        for url in re.findall(r'dashboard: "(.*)"', (RULES / "alerts.yml").read_text()):
            parts = urllib.parse.urlparse(url)
            with self.subTest(url=url):
                wanted = {name.removeprefix("var-") for name in urllib.parse.parse_qs(parts.query)}
                self.assertLessEqual(wanted, known[parts.path.removeprefix("/d/")])

    # ------------------------------------------------------------ pictures

    def test_pictures_can_be_drawn(self):
        now = int(time.time())
        moment = {"start": now - 60, "end": now, "step": STEP}
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder, Browser() as browser:
            page, picture = pathlib.Path(folder) / "page.html", pathlib.Path(folder) / "picture.png"
            for name, dashboard in dashboards():
                data = data_of(dashboard, self.prometheus, moment, {"program": "demo_server", "function": SITE}, "light")
                write_page(data, page)
                draw(browser, page, picture, 1280, 0)
                with self.subTest(dashboard=name):
                    self.assertEqual(len(list(panels_of(dashboard))), browser.evaluate(
                        "[...document.querySelectorAll('section .body')].filter((b) => b.children.length > 0).length"))
                    self.assertEqual([], [url for url in browser.requests if not url.startswith("file:")])
                    self.assertGreater(picture.stat().st_size, 20_000)

    # ------------------------------------------------------------ rules

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
                               timeout=60)

    def test_metrics_of_rules_and_alerts_exist(self):
        """promtool's tests use invented series, so their names must be checked against memprofd's. Metrics that appear
        only at the end of a program or with --rules are in the golden file."""
        golden = (harness.ROOT / "tests/golden/metrics.txt").read_text()
        text = (RULES / "rules.yml").read_text() + (RULES / "alerts.yml").read_text()
        recorded = set(re.findall(r"record: (\S+)", text))
        for name in sorted(set(re.findall(r"(?<![:\w/])memprofd_\w+(?![:\w])", text))):
            with self.subTest(metric=name):
                self.assertTrue(name in recorded or self.prometheus.query(f"count({name})")
                                or name in ("memprofd_target_end", "memprofd_assertion_violations") and f"\n{name}{{" in golden)

    def test_no_alert_fires_on_a_healthy_memprofd(self):
        alerts = [a["labels"]["alertname"] for a in self.prometheus.get("alerts")["alerts"]
                  if a["state"] == "firing"]
        self.assertEqual([], alerts)


if __name__ == "__main__":
    unittest.main()
