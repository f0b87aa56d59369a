# SPDX-License-Identifier: Apache-2.0
"""History of published values: numbers, phases and lines, across restarts and ends of programs and of memprofd."""

import json
import math
import pathlib
import re
import sys
import time
import unittest

import harness
from api import ask, post
from harness import TARGETS, TARGETS5, E2ETest, eventually

sys.path.append(str(harness.ROOT / "tests/e2e"))
from test_values import SOURCE, fields_of  # noqa: E402

HITS, SECONDS, STOPS, RUNNING, NUMBER, SIZE = (f"VALUE_QUANTITY_{name}" for name in
                                              ("HITS", "SECONDS", "STOPS", "RUNNING", "NUMBER", "SIZE"))


class HistoryTest(E2ETest):
    def history(self, daemon, pid, **parameters):
        """The history in the HTTP API."""
        query = "&".join(f"{name}={value}" for name, value in {"pid": pid, "points": 10_000, **parameters}.items())
        status, text = ask(daemon, "GET", f"/api/v1/value_history?{query}")
        self.assertEqual(200, status, text)
        return json.loads(text)

    def column(self, answer, name, quantity, of="lasts"):
        """The known numbers of a series, in order."""
        found = [one for one in answer["series"] if one["name"] == name and one["quantity"] == quantity]
        self.assertLessEqual(len(found), 1, name)
        numbers = [float(number) for one in found for number in one[of]]
        for one in found:
            self.assertEqual(len(answer["times_unix_ns"]), len(one[of]))
        return [number for number in numbers if not math.isnan(number)]

    def wait_last(self, daemon, pid, name, quantity, number):
        """Waits until the latest number is `number`; returns that answer."""
        def told():
            answer = self.history(daemon, pid)
            return answer if self.column(answer, name, quantity)[-1:] == [number] else None
        return eventually(told, f"{name} is {number}")


class History(HistoryTest):
    def check_version(self, folder):
        target = self.target("reports", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe", "--web.enable-control")
        self.wait_last(daemon, target.pid, "count", NUMBER, 0)
        for n in (10, 20, 30):
            target.command("hit 10")
            target.command(f"set {n}")
            self.wait_last(daemon, target.pid, "count", NUMBER, n)
        target.command("time 7")
        answer = self.wait_last(daemon, target.pid, "handling", STOPS, 7)
        hits = self.column(answer, "c_requests", HITS)
        self.assertEqual(hits, sorted(hits))
        self.assertEqual(60, hits[-1], "of two threads of C code")
        numbers = self.column(answer, "count", NUMBER)
        self.assertEqual([10, 20, 30], [n for n in dict.fromkeys(numbers) if n != 0])
        self.assertEqual(30, self.column(answer, "table", SIZE)[-1])
        self.assertEqual(1, self.column(answer, "waiting", RUNNING)[-1])
        requests = [one for one in answer["series"] if one["name"] == "requests"]
        self.assertEqual({("/a", "requests"), ("/b", "requests")},
                         {(one["labels"][0]["value"], one["unit"]) for one in requests})
        times = [int(time) for time in answer["times_unix_ns"]]
        self.assertEqual(times, sorted(set(times)))
        self.check_range(daemon, target, times)
        self.check_wide(daemon, target)

    def check_range(self, daemon, target, times):
        """A range contains only its own points; patterns match names with their labels."""
        begin, end = times[1], times[-2] + 1
        answer = self.history(daemon, target.pid, pattern="^count$", **{"range.begin_unix_ns": begin, "range.end_unix_ns": end})
        self.assertEqual(["count"], [one["name"] for one in answer["series"]])
        self.assertTrue(all(begin < int(time) <= end for time in answer["times_unix_ns"]), answer["times_unix_ns"])
        answer = self.history(daemon, target.pid, pattern="route=/a")
        self.assertEqual(["requests"], [one["name"] for one in answer["series"]])
        status, text = ask(daemon, "GET", f"/api/v1/value_history?pid={target.pid}&pattern=(")
        self.assertEqual(400, status)
        self.assertIn(b"bad name pattern", text)
        self.assertEqual(404, ask(daemon, "GET", "/api/v1/value_history?pid=1")[0])

    def check_wide(self, daemon, target):
        """A single point for the whole time still has the minimum and the maximum."""
        answer = self.history(daemon, target.pid, points=1, pattern="^count$")
        series, = answer["series"]
        self.assertEqual((1, 0, 30), (len(answer["times_unix_ns"]), series["lows"][0], series["highs"][0]))

    def test_ocaml4(self):
        self.check_version(TARGETS)

    def test_ocaml5(self):
        self.check_version(TARGETS5)

    def test_phases_and_lines(self):
        """Phases are always recorded, lines only while a viewer is present. Lines require the right to control."""
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe", "--web.enable-control")
        target.command("phase enter")
        eventually(lambda: self.history(daemon, target.pid)["phases"], "the phase is seen")
        self.assertFalse(target.command("log nobody looks")["on"], "history only looks on")
        daemon.ctl("values")
        self.assertTrue(target.command("log <b>told</b>")["on"])
        target.command("pause here 0")
        target.command("phase leave")
        phase, = eventually(lambda: [p for p in self.history(daemon, target.pid)["phases"] if p["end_unix_ns"] != "0"], "its end")
        self.assertEqual("load", phase["name"])
        self.assertLess(int(phase["begin_unix_ns"]), int(phase["end_unix_ns"]))
        answer = self.history(daemon, target.pid, with_lines="true")
        self.assertEqual(([], ["here"]), (answer["lines"], [line["text"] for line in answer["pauses"]]))
        status, text = post(daemon, "value_lines", pid=target.pid)
        self.assertEqual(200, status, text)
        self.assertEqual([("<b>told</b>", False), ("here", True)],
                         [(line["text"], line["is_pause"]) for line in json.loads(text)["lines"]])

    def test_without_control(self):
        """Numbers are available, as in metrics; lines, contents and control are not."""
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        eventually(lambda: self.history(daemon, target.pid)["series"], "it is read")
        for what in ("value_lines", "values", "resume", "adjust", "keep_values"):
            status, said = post(daemon, what, pid=target.pid)
            self.assertEqual((403, True), (status, "--web.enable-control" in said), what)
        self.assertEqual({"series": [], "lines": []}, {
            key: value for key, value in self.history(daemon, self.quiet(daemon)).items() if key in ("series", "lines")})

    def quiet(self, daemon):
        """A program that publishes no values."""
        other = self.target("values")
        daemon.ctl("attach", "--pid", other.pid, "--mode", "observe")
        return other.pid

    def test_commands_of_the_page(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe", "--web.enable-control")
        target.command("set 5")
        status, text = post(daemon, "values", pid=target.pid, pattern="^count$", only_reported=True)
        self.assertEqual(200, status, text)
        self.assertEqual(["5"], [one["value"]["integer"] for one in json.loads(text)["reported"]])
        status, text = post(daemon, "values", pid=target.pid, pattern="^graph$", graph_nodes=100, with_contents=True)
        self.assertEqual(10, len(json.loads(text)["reported"][0]["value"]["graph"]))
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: contents of values by 127.0.0.1.*: done")
        for enabled in (False, True):
            status, text = post(daemon, "adjust", pid=target.pid, pattern="^twice$", enabled=enabled, period_ms=250)
            self.assertEqual((200, 1), (status, json.loads(text)["count"]))
            twice, = json.loads(post(daemon, "values", pid=target.pid, pattern="^twice$", only_reported=True)[1])["reported"]
            self.assertEqual((not enabled, 250), (twice["is_off"], twice["period_ms"]))
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: adjust '\^twice\$' \(off, period 250 ms\) by 127.0.0.1.*: done")
        self.assertEqual(404, post(daemon, "adjust", pid=target.pid, pattern="^no$", enabled=False)[0])
        target.send("pause here 3600000")
        eventually(lambda: json.loads(post(daemon, "values", pid=target.pid, only_reported=True)[1])["waiting"] == 1, "it waits")
        self.assertEqual((200, 1), (lambda status, text: (status, json.loads(text)["waiting"]))(*post(daemon, "resume", pid=target.pid)))
        self.assertTrue(json.loads(target.read_line())["resumed"])
        self.assertEqual(400, ask(daemon, "POST", "/api/v1/values", {"pid": target.pid})[0], "no other site may")


class Kept(HistoryTest):
    """Module values of a program without any preparation."""

    def kept(self, daemon, *arguments):
        return daemon.ctl("watch", *arguments).stdout

    def check_version(self, folder):
        target = self.target("values", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe", "--web.enable-control")
        names = [f"Values[{fields_of(SOURCE).index(name)}]" for name in ("count", "word", "table")]
        pattern = "|".join(f"^{re.escape(name)}$" for name in names)
        target.command("set 1234")
        self.assertEqual(f"recording module values of pid {target.pid}: {', '.join(names)}\n", self.kept(daemon, "--keep", pattern))
        count, word, table = names
        answer = self.wait_last(daemon, target.pid, count, NUMBER, 1234)
        self.assertEqual(1234, self.column(answer, table, SIZE)[-1])
        self.assertEqual(34, self.column(answer, word, SIZE)[-1], "numbers of strings, not what they hold")
        self.assertEqual(set(names), {one["name"] for one in answer["series"]}, "nothing else is kept")
        target.command("set 7")
        answer = self.wait_last(daemon, target.pid, table, SIZE, 7)
        metrics = daemon.metrics()
        self.assertEqual(7, metrics.value("memprofd_value", pid=target.pid, value=count))
        self.assertEqual(7, metrics.value("memprofd_value_size", pid=target.pid, value=word))
        self.assertEqual(7, metrics.value("memprofd_table_bindings", pid=target.pid, table=table))
        self.assertEqual([1234, 7], list(dict.fromkeys(self.column(answer, table, SIZE))))
        self.check_http(daemon, target, count)
        self.check_end(daemon, target, count, table)

    def check_http(self, daemon, target, name):
        status, text = post(daemon, "keep_values", pid=target.pid, pattern=f"^{re.escape(name)}$")
        self.assertEqual((200, 3), (status, len(json.loads(text)["names"])), "it is kept already")
        self.assertEqual(3, len(json.loads(post(daemon, "values", pid=target.pid, only_reported=True)[1])["kept"]))
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: keep values '.*' by 127.0.0.1.*: done")
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: keep values '.*' by user 0.*: done")
        done = daemon.ctl("watch", "--keep", "no such value", check=False)
        self.assert_one_line(done.stderr, "no value of a module of pid", "memprofctl values")

    def check_end(self, daemon, target, first, second):
        """A forgotten value gets no new numbers and keeps the old ones."""
        self.kept(daemon, "--forget", f"^{re.escape(first)}$")
        target.command("set 99")
        answer = self.wait_last(daemon, target.pid, second, SIZE, 99)
        self.assertEqual({1234, 7}, set(self.column(answer, first, NUMBER)))
        self.assertEqual(f"recording module values of pid {target.pid}: nothing\n", self.kept(daemon, "--forget", "."))
        self.assertEqual([], daemon.metrics().find("memprofd_table_bindings"))

    def test_names_of_the_source(self):
        """With the compiler's files, values have their names and types, and can be found and recorded by name."""
        target = self.target("demo_server")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe", "--snapshot.cmt", TARGETS / "obj")
        names = {"table": "Demo_server.Sessions.table", "clock": "Demo_server.Cache.clock"}
        found = {value["source_name"]: value for value in
                 json.loads(daemon.ctl("values", r"^Demo_server\.", "-o", "json").stdout)["values"]}
        self.assertEqual("(int, Demo_server.Sessions.session) Hashtbl.t", found[names["table"]]["source_type"])
        self.assertEqual("VALUE_KIND_TABLE", found[names["table"]]["value"]["kind"])
        self.assertEqual("VALUE_KIND_REFERENCE", found["Demo_server.requests_per_second"]["value"]["kind"])
        place = found[names["table"]]["name"]
        listed = daemon.ctl("values", f"^{re.escape(place)}$").stdout
        self.assertRegex(listed, r"Demo_server\.Sessions\.table : \(int, Demo_server.Sessions.session\) Hashtbl.t +Hashtbl of \d+ ")
        watched = daemon.ctl("watch", names["clock"], "-n", "1").stdout
        self.assertRegex(watched, r"  Demo_server\.Cache\.clock  ref \d+\n")
        told = self.kept(daemon, "--keep", r"Sessions\.table")
        self.assertEqual(f"recording module values of pid {target.pid}: {names['table']}\n", told)
        eventually(lambda: self.column(self.history(daemon, target.pid), names["table"], SIZE), "it is kept")

    def test_ocaml4(self):
        self.check_version(TARGETS)

    def test_ocaml5(self):
        self.check_version(TARGETS5)


class Lasting(HistoryTest):
    def test_over_a_restart(self):
        """A killed memprofd loses at most its last seconds; the next one continues the same series."""
        target = self.target("reports")
        options = ("--mode", "observe", "--state.directory", self.folder / "state")
        daemon = self.daemon("--pid", target.pid, *options)
        target.command("phase enter")
        for n in range(1, 4):
            target.command(f"set {n}")
            self.wait_last(daemon, target.pid, "count", NUMBER, n)
        daemon.metrics()  # the answer comes after the state has been written
        before = self.history(daemon, target.pid)
        daemon.kill()
        target.command("set 9")
        daemon = self.daemon(*options)
        daemon.wait_state(target.pid, "sampling")
        after = self.wait_last(daemon, target.pid, "count", NUMBER, 9)
        self.assertEqual([1, 2, 3, 9], [n for n in dict.fromkeys(self.column(after, "count", NUMBER)) if n != 0])
        self.assertEqual(before["oldest_unix_ns"], after["oldest_unix_ns"])
        self.assertEqual([("load", "0")], [(p["name"], p["end_unix_ns"]) for p in after["phases"]])
        self.assertEqual(before["phases"][0]["begin_unix_ns"], after["phases"][0]["begin_unix_ns"])

    def test_of_a_program_that_has_ended(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("set 3")
        self.wait_last(daemon, target.pid, "count", NUMBER, 3)
        target.kill()
        daemon.wait_state(target.pid, "exited")
        self.assertEqual(3, self.column(self.history(daemon, target.pid), "count", NUMBER)[-1])

    def test_a_child_has_its_own(self):
        target = self.target("reports")
        target.command("hit 1000")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        child = target.command("fork")["pid"]
        self.addCleanup(harness.kill, child)
        daemon.ctl("attach", "--pid", child, "--mode", "observe")
        found = eventually(lambda: self.history(daemon, child, pattern="route=/a")["series"], "the child is read")
        eventually(lambda: self.column(self.history(daemon, child, pattern="route=/a"), "requests", HITS)[-1] == 3, "its hits")
        self.assertEqual("requests", found[0]["unit"])


class Commands(HistoryTest):
    def test_value_history(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        daemon.ctl("values")
        target.command("log a line")
        target.command("phase enter")
        for n in (5, 25):
            target.command(f"set {n}")
            self.wait_last(daemon, target.pid, "count", NUMBER, n)
        text = daemon.ctl("value-history", "--match", "^count$|^table$", "--log").stdout
        self.assertRegex(text, r"(?m)^count +value +\S+ +\d+ +25 +\d+ +25 +things$")
        self.assertRegex(text, r"(?m)^table +size .* 25 ")
        self.assertRegex(text, r"(?m) to still  phase load$")
        self.assertRegex(text, r"(?m)^LOG\n.*  a line$")
        told = json.loads(daemon.ctl("value-history", "--match", "^count$", "--last", "10m", "-o", "json").stdout)
        self.assertEqual(25, told["series"][0]["lasts"][-1])
        self.assertEqual([], told["lines"], "they are asked for by --log")

    def test_a_recording_has_it(self):
        """A replay without memprofd shows the numbers, phases and lines of the recorded time."""
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        target.send("spin 4")
        daemon.wait_state(target.pid, "sampling")
        daemon.ctl("values")
        trace = self.folder / "t.ctf"
        recorded = self.process(harness.Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "record",
                                                 "--pid", str(target.pid), "--out", trace, "--duration", "6s"]))
        json.loads(target.read_line())
        kept = next(one["name"] for one in json.loads(daemon.ctl("values", "^Reports", "-o", "json").stdout)["values"]
                    if one["value"]["kind"] == "VALUE_KIND_TABLE")
        daemon.ctl("watch", "--keep", f"^{re.escape(kept)}$")
        target.command("hit 10")
        target.command("time 5")
        target.command("set 13")
        target.command("log it's recorded")
        target.command("phase enter")
        self.wait_last(daemon, target.pid, "count", NUMBER, 13)
        self.assertEqual(0, recorded.popen.wait(harness.TIMEOUT), recorded.stderr())
        eventually(lambda: any(f"{trace}.values: " in line for line in recorded.output), "it says where they are")
        daemon.kill()
        told = json.loads(harness.memprofctl("value-history", trace, "--log", "-o", "json").stdout)
        self.assertEqual(13, self.column(told, "count", NUMBER)[-1])
        self.assertEqual(20, self.column(told, "c_requests", HITS)[-1])
        self.assertLessEqual(5, self.column(told, "handling", STOPS)[-1])
        self.assertLess(0, self.column(told, "handling", SECONDS)[-1])
        self.assertEqual(1, self.column(told, "waiting", RUNNING)[-1])
        self.assertEqual(13, self.column(told, kept, SIZE)[-1], "what is kept of modules")
        self.assertEqual(["it's recorded"], [line["text"] for line in told["lines"]])
        self.assertEqual(["load"], [phase["name"] for phase in told["phases"]])
        self.assertIn("samples", harness.memprofctl("report", trace).stdout, "the trace is as ever")
        pathlib.Path(f"{trace}.values").write_bytes(b"nonsense")
        done = harness.memprofctl("value-history", trace, check=False)
        self.assertNotEqual(0, done.returncode)
        self.assert_one_line(done.stderr, "t.ctf.values", "remove it")


class Cost(HistoryTest):
    def test_reads_expensive_values_rarely(self):
        """Reading 500 names and large tags costs about 1 % of a processor at most."""
        target = self.target("reports")
        target.command("many 400")
        target.command("mark 20000")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        eventually(lambda: len(self.history(daemon, target.pid)["series"]) > 400, "it is read")
        thread = next(task for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()
                      if (task / "comm").read_text().strip() == "values")
        used = lambda: sum(map(int, (thread / "stat").read_text().rpartition(")")[2].split()[11:13]))
        looks = lambda: len(self.history(daemon, target.pid)["times_unix_ns"])
        begin, before, first = time.monotonic(), used(), looks()
        eventually(lambda: looks() >= first + 3, "three more looks", timeout=120)
        share = (used() - before) / 100 / (time.monotonic() - begin)
        harness.NOTES.append(f"looking on takes {100 * share:.2f} % of a processor")
        self.assertLess(share, 0.05)


if __name__ == "__main__":
    unittest.main()
