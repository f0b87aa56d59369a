# SPDX-License-Identifier: Apache-2.0
"""Module values are read as the program has set them, never mixed from two moments."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import grpc

import harness
from harness import PRIVILEGES, TARGETS, TARGETS5, E2ETest
from messages import message_modules
from messages import message_modules

SOURCE = (harness.ROOT / "tests/targets/values.ml").read_text()
SOURCE5 = (harness.ROOT / "tests/targets/value_domains.ml").read_text()
READS = 100_000 if harness.MATRIX else 300
SECRET = "correct horse battery staple"


def fields_of(source):
    """Fields of a module in order of their definitions."""
    return re.findall(r"^(?:let(?: rec)?|module) (\w+)", source, re.M)


def integers(value):
    """All integers in a value of gRPC."""
    if value.kind == 1:
        yield value.integer
    elif value.kind == 2:
        yield int(value.number)
    for field in value.fields:
        yield from integers(field)


class ValuesTest(E2ETest):
    def answer(self, daemon, pid, *arguments):
        """The raw JSON, where published text stays text even if it looks like a number."""
        return json.loads(daemon.ctl("values", *arguments, "--pid", pid, "-o", "json").stdout)

    def values(self, daemon, pid, *arguments):
        """Values by name in the source, as memprofctl prints them."""
        listed = self.answer(daemon, pid, *arguments, "^Values")["values"]
        names = fields_of(SOURCE)
        return {names[v["field"]]: v["value"] for v in listed}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.pb, _ = message_modules(folder.name, "memprof/v1/values.proto", "memprof/v1/profiler.proto")

    def ask(self, daemon, pid, **request):
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            call = channel.unary_unary("/memprof.v1.Values/ListValues",
                                       request_serializer=self.pb.ListValuesRequest.SerializeToString,
                                       response_deserializer=self.pb.ListValuesResponse.FromString)
            request = self.pb.ListValuesRequest(pid=pid, **request)
            while True:
                yield call(request, timeout=harness.TIMEOUT)

    def follow(self, daemon, pid, period, **request):
        """Changes, message by message."""
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            watch = channel.unary_stream("/memprof.v1.Values/WatchValues",
                                         request_serializer=self.pb.WatchValuesRequest.SerializeToString,
                                         response_deserializer=self.pb.WatchValuesResponse.FromString)
            values = self.pb.ListValuesRequest(pid=pid, **request)
            stream = watch(self.pb.WatchValuesRequest(values=values, period_seconds=period), timeout=2 * harness.TIMEOUT)
            yield from stream


class Shapes(ValuesTest):
    def check_version(self, folder):
        target = self.target("values", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        for n in (7, 1234, 99):
            with self.subTest(n=n):
                target.command(f"set {n}")
                self.check(self.values(daemon, target.pid), n)

    def check(self, found, n):
        held = {name: value["fields"][0] for name, value in found.items() if value["kind"] == "VALUE_KIND_REFERENCE"}
        kind = lambda value: value["kind"].removeprefix("VALUE_KIND_").lower()
        self.assertEqual(("integer", str(n)), (kind(held["count"]), held["count"].get("integer")))
        self.assertEqual(("float", n / 2), (kind(held["ratio"]), held["ratio"]["number"]))
        self.assertEqual(("string", n % 100), (kind(held["word"]), int(held["word"]["size"])))
        self.assertEqual(("list", n % 1000), (kind(held["numbers"]), int(held["numbers"]["size"])))
        self.assertEqual([str(n + i) for i in range(min(8, n % 1000))],
                         [v["integer"] for v in held["numbers"]["fields"]])
        self.assertEqual(["integer", "float", "string", "integer"], [kind(v) for v in held["record"]["fields"]])
        self.assertEqual(str(-n), held["record"]["fields"][3]["integer"])
        self.assertEqual(("table", n % 5000), (kind(found["table"]), int(found["table"]["size"])))
        self.assertTrue(found["table"]["chains_counted"])
        self.assertEqual(("queue", n % 5000), (kind(found["queue"]), int(found["queue"]["size"])))
        self.assertEqual("3", found["queue"]["fields"][0]["integer"])
        self.assertEqual(("tree", n % 700), (kind(held["names"]), int(held["names"]["size"])))
        self.assertEqual(("tree", n % 300), (kind(held["ints"]), int(held["ints"]["size"])))
        self.assertEqual(("custom", "_j", str(n * 10_000_000_000)),
                         (kind(held["wide"]), held["wide"]["text"], held["wide"]["integer"]))
        self.assertEqual(("float_array", n % 50), (kind(held["floats"]), int(held["floats"]["size"])))
        self.assertEqual("lazy", kind(held["later"]))
        self.assertNotIn("step", found, "a function never changes")

    def test_ocaml4(self):
        self.check_version(TARGETS)

    def test_ocaml5(self):
        self.check_version(TARGETS5)

    def test_too_large(self):
        """Snapshots count values that are too large; other values are unaffected."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder.name):
                target = self.target("values", folder=folder)
                daemon = self.daemon("--pid", target.pid)
                harness.eventually(lambda: daemon.state(target.pid) == "sampling" or target.command("grow 10"), "attached")
                target.command("grow 30000")
                held = lambda found, name: found[name] if name == "table" else found[name]["fields"][0]
                found = self.values(daemon, target.pid)
                self.assertTrue(held(found, "numbers")["size_is_least"])
                self.assertFalse(held(found, "table")["chains_counted"])
                target.send("wait 20")  # a program that waits for input never reaches a safe point
                found = self.values(daemon, target.pid, "--snapshot", "--max-pause", "10s")
                for name, kind in (("numbers", "LIST"), ("table", "TABLE"), ("names", "TREE"), ("ints", "TREE")):
                    value = held(found, name)
                    self.assertEqual((f"VALUE_KIND_{kind}", "30000", True),
                                     (value["kind"], value["size"], value["is_of_snapshot"]), name)
                self.assertEqual(30000, sum(i * int(n) for i, n in enumerate(held(found, "table")["chains"])))
                self.assertFalse(held(found, "count")["is_of_snapshot"])

    def test_constants_when_asked_for(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        found = self.values(daemon, target.pid, "--constants")
        self.assertEqual(found.keys(), self.values(daemon, target.pid, "--discover").keys())
        self.assertEqual(("VALUE_KIND_FUNCTION", "Values.step"), (found["step"]["kind"], found["step"]["text"]))
        self.assertEqual("Values.tree", found["tree"]["text"], "of two arguments")
        self.assertEqual(fields_of(SOURCE), list(found))

    def test_contents_of_strings_are_secret(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        for arguments in ((), ("-o", "json"), ("--constants",), ("--constants", "-o", "json")):
            with self.subTest(arguments):
                self.assertNotIn(SECRET, daemon.ctl("values", *arguments).stdout)
        self.assertNotIn("contents", daemon.stderr())
        self.assertIn(f'ref "{SECRET}"', daemon.ctl("values", "--contents").stdout)
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: contents of values by user 0.*: done")


class Whole(ValuesTest):
    """Values that the program replaces at full speed: each read holds one number."""

    def look(self, answer, names, seen):
        """Adds the numbers of one answer; returns the count of values that could not be read
        consistently."""
        skipped = 0
        for named in answer.values:
            name = names.get(named.field)
            if name is None:
                continue
            if named.value.kind == 16 or named.value.is_changing:
                skipped += 1
                continue
            numbers = set(integers(named.value))
            self.assertEqual(1, len(numbers), (name, named.value))
            seen[name] |= numbers
        return skipped

    def check_whole(self, daemon, pid, names, pattern, rounds):
        """Reads until each was seen at several moments, because a busy machine delays most
        reads."""
        seen = {name: set() for name in names.values()}
        answers = self.ask(daemon, pid, pattern=pattern, limit=100)
        skipped = sum(self.look(next(answers), names, seen) for _ in range(rounds))
        deadline = time.monotonic() + 60
        while min(map(len, seen.values())) <= 3:
            self.assertLess(time.monotonic(), deadline, f"read whole at several moments: {seen}; {skipped} were not")
            skipped += self.look(next(answers), names, seen)
        harness.NOTES.append(f"{rounds * len(names)} values read, {skipped} told as not whole")

    def check_busy(self, folder):
        target = self.target("values", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        names = {i: name for i, name in enumerate(fields_of(SOURCE)) if name.startswith(("busy_", "old_"))}
        self.assertEqual(5, len(names))
        target.send("churn 100000")
        pattern = rf"^Values\[({'|'.join(map(str, names))})\]$"
        self.check_whole(daemon, target.pid, names, pattern, READS)

    def test_ocaml4(self):
        self.check_busy(TARGETS)

    def test_ocaml5(self):
        self.check_busy(TARGETS5)

    def test_domains(self):
        target = self.target("value_domains", "2", folder=TARGETS5)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        names = {i: name for i, name in enumerate(fields_of(SOURCE5)) if re.match("first_|second_", name)}
        self.assertEqual(6, len(names))
        self.check_whole(daemon, target.pid, names, r"^Value_domains\[[0-5]\]$", READS // 5)


class Asking(ValuesTest):
    def test_who_may(self):
        """Only clients that may control the program."""
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        daemon.socket.chmod(0o666)
        self.folder.chmod(0o755)
        asked = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", harness.BUILD / "memprofctl",
                                "--grpc.socket", daemon.socket, "values", "--pid", str(target.pid)],
                               capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual(PRIVILEGES, asked.returncode, asked.stdout)
        self.assert_one_line(asked.stderr, "user 65534")

    def test_what_is_wrong(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        for arguments, words in ((("(",), "bad name pattern"), (("--pid", "1"), "pid 1 is not profiled")):
            with self.subTest(arguments):
                done = daemon.ctl("values", *arguments, check=False)
                self.assertNotEqual(0, done.returncode)
                self.assert_one_line(done.stderr, words)

    def test_a_limit_keeps_the_applications_values(self):
        """Limits leave out values of libraries first. The order stays that of the modules."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder.name):
                target = self.target("values", folder=folder)
                daemon = self.daemon("--pid", target.pid)
                everything = self.answer(daemon, target.pid, "--constants")["values"]
                self.assertIn("Stdlib", {value["module"] for value in everything})
                own = [value for value in everything if value["module"] in ("Values", "Handshake")]
                answer = self.answer(daemon, target.pid, "--constants", "--limit", str(len(own)))
                self.assertGreater(int(answer["left_out"]), 100)
                fields = lambda values: [(value["module"], value["field"]) for value in values]
                self.assertEqual(fields(own), fields(answer["values"]))

    def test_an_end_in_the_middle(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        daemon.ctl("values")
        target.kill()
        done = daemon.ctl("values", "--pid", target.pid, check=False)
        self.assertNotEqual(0, done.returncode)
        self.assert_one_line(done.stderr, str(target.pid))


class Reported(ValuesTest):
    """Values published with Memprof_values and memprof_values.h."""

    def reported(self, daemon, pid, *arguments):
        """By name with labels."""
        answer = self.answer(daemon, pid, *arguments)
        return {"".join([one["name"], *(f" {label['value']}" for label in one["labels"])]): one
                for one in answer["reported"]}, answer

    def check_version(self, folder):
        target = self.target("reports", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("hit 100000")
        target.command("time 1000")
        target.command("phase enter")
        target.command("set 1235")
        found, _ = self.reported(daemon, target.pid)
        self.assertEqual("400000", found["requests /a"]["hits"], "of four threads")
        self.assertEqual("requests", found["requests /a"]["unit"])
        self.assertEqual("-100000", found["requests /b"]["hits"])
        self.assertEqual("200000", found["c_requests /c get"]["hits"], "of two threads of C code")
        handling, waiting, load = found["handling"], found["waiting in"], found["load"]
        self.assertEqual(("1000", "1000"), (handling["starts"], handling["stops"]))
        self.assertLess(handling["max_seconds"], handling["seconds"])
        self.assertEqual(("1", "0"), (waiting["starts"], waiting["stops"]))
        self.assertEqual(("REPORTED_KIND_PHASE", "1", "0"), (load["kind"], load["starts"], load["stops"]))
        self.assertGreater(self.reported(daemon, target.pid)[0]["waiting in"]["seconds"], waiting["seconds"])
        held = {name: one["value"] for name, one in found.items() if one["kind"] == "REPORTED_KIND_VALUE"}
        self.assertEqual("1235", held["count"]["integer"])
        self.assertEqual(1235 / 4, held["ratio"]["number"])
        self.assertEqual((True, "1"), (found["flag"]["is_bool"], held["flag"]["integer"]))
        self.assertEqual("w" * 35, held["word"]["text"])
        self.assertEqual(("VALUE_KIND_TABLE", "235"), (held["table"]["kind"], held["table"]["size"]))
        self.assertEqual("1235", held["c_whole"]["integer"])
        self.assertEqual(1235 / 8, held["c_real"]["number"])
        self.assertEqual("it's set", held["c_text"]["text"])
        self.assertEqual((True, "1"), (found["c_truth"]["is_bool"], held["c_truth"]["integer"]))
        self.check_durations(daemon, target)
        self.check_functions(daemon, target)
        self.check_adjust(daemon, target)
        self.check_graph(daemon, target)
        self.check_tag(daemon, target)
        self.check_log(daemon, target)

    def check_durations(self, daemon, target):
        """All intervals are in a bucket; those of known duration are in the right one."""
        target.command("nap 3")
        found, _ = self.reported(daemon, target.pid)
        handling = found["handling"]
        all_of_them = handling["durations"]
        buckets = all_of_them["buckets"]
        self.assertEqual("1003", all_of_them["count"])
        self.assertEqual(1003, sum(int(one["count"]) for one in buckets))
        self.assertAlmostEqual(handling["seconds"], all_of_them["seconds"])
        self.assertGreaterEqual(sum(int(one["count"]) for one in buckets if one["range"]["high_seconds"] > 0.02), 3)
        longest = buckets[-1]["range"]
        self.assertTrue(longest["low_seconds"] <= handling["max_seconds"] < longest["high_seconds"])
        self.assertLess(all_of_them["p50"]["high_seconds"], all_of_them["p99"]["high_seconds"] + 1e-9)
        self.assertEqual("1", found["setting in C"]["durations"]["count"])
        self.assertNotIn("durations", found["waiting in"], "it has no tokens")
        self.assertRegex(daemon.ctl("values").stdout, r"handling +1003 times, .*, 50 % within \S+ [un]s, 90 % .*, 99 % .*, longest ")

    def check_functions(self, daemon, target):
        """Functions are evaluated at a minor collection while a viewer is present."""
        def evaluated():
            target.command("minor")
            found, _ = self.reported(daemon, target.pid)
            return found if found["twice"]["value"].get("integer") == "2470" else None
        found = harness.eventually(evaluated, "functions are evaluated")
        self.assertEqual(1235 / 2, found["half"]["value"]["number"])
        self.assertEqual("1235", found["text"]["value"]["text"])
        self.assertIn("exception", found["failing"]["value"]["why_unread"])

    def check_adjust(self, daemon, target):
        """Values switched off are neither called, read, logged nor exported; viewers can change
        periods."""
        adjust = lambda *arguments: daemon.ctl("adjust", "--pid", target.pid, *arguments).stdout
        calls = lambda: target.command("minor")["evaluated"]
        self.assertEqual(f"pid {target.pid}: changed 1 value: off\n", adjust("^twice$", "--off"))
        before = calls()
        self.assertEqual([before] * 5, [calls() for _ in range(5)])
        nothing = daemon.ctl("values", "nosuch", check=False)
        self.assertEqual((harness.NO_PROCESS, ""), (nothing.returncode, nothing.stdout))
        self.assertIn("is called 'nosuch'", nothing.stderr)
        self.assertIn("(off)\n", daemon.ctl("values", "^twice$").stdout)
        self.assertEqual([], daemon.metrics().find("memprofd_value", pid=target.pid, value="twice"))
        adjust("^twice$", "--on", "--period", "3600000")
        self.assertEqual(3_600_000, self.reported(daemon, target.pid)[0]["twice"]["period_ms"])
        self.assertEqual([before] * 5, [calls() for _ in range(5)], "it was called in this hour")
        adjust("^twice$", "--period", "0")
        harness.eventually(lambda: calls() > before, "it is called with the period of the program")
        self.assertEqual(1, self.reported(daemon, target.pid)[0]["twice"]["period_ms"])
        adjust("--label", "route=/a", "--off")
        adjust("^(table|load)$", "--off")
        found, _ = self.reported(daemon, target.pid)
        self.assertEqual({"requests /a", "table", "load"}, {name for name, one in found.items() if one["is_off"]})
        self.assertIn("switched off", found["table"]["value"]["why_unread"])
        lines = len(self.reported(daemon, target.pid)[1]["lines"])
        target.command("phase leave")
        target.command("phase enter")
        self.assertEqual(lines, len(self.reported(daemon, target.pid)[1]["lines"]))
        adjust("--on")
        self.assertFalse(any(one["is_off"] for one in self.reported(daemon, target.pid)[0].values()))
        done = daemon.ctl("adjust", "--pid", target.pid, "--label", "route=/none", "--off", check=False)
        self.assert_one_line(done.stderr, "no published value")
        self.assertRegex(daemon.stderr(), rf"pid {target.pid}: adjust '' {{route=/a}} \(off\) by .*: done, it has 1")

    def check_graph(self, daemon, target):
        """Each block once: root, inner, leaf, their labels, and four cells of lists."""
        asked = ("values", "--pid", target.pid, "--graph", "graph")
        value = json.loads(daemon.ctl(*asked, "--contents", "-o", "json").stdout)["reported"][0]["value"]
        nodes = value["graph"]
        self.assertEqual(["inner", "leaf", "root"], sorted(filter(None, (node["value"]["text"] for node in nodes))))
        self.assertEqual((10, False), (len(nodes), value["graph_is_cut"]))
        shared = [i for i, node in enumerate(nodes) if node["references"] > 1]
        self.assertEqual(1, len(shared), "the leaf")
        self.assertEqual(1, nodes[0]["references"], "the way back")
        text = daemon.ctl(*asked).stdout
        self.assertRegex(text, r"^#1 \{2 fields\}\n  string of 4 bytes\n")
        self.assertEqual(2, text.count("#1"))
        self.assertEqual(11, daemon.ctl(*asked, "-o", "dot").stdout.count(" -> n"))
        done = daemon.ctl("values", "--pid", target.pid, "--graph", "nothing", check=False)
        self.assert_one_line(done.stderr, "no value is called 'nothing'")

    def check_tag(self, daemon, target):
        """Live ones of 6000 marked records, by two handles of one tag; then of another tag after
        they are dropped."""
        words = target.command("mark 6000")["words"]
        one = self.reported(daemon, target.pid, "marked")[0]["marked record"]
        tag = one["value"]
        self.assertEqual(("REPORTED_KIND_TAG", "3000", str(8 * words)), (one["kind"], tag["size"], tag["bytes"]))
        self.assertFalse(tag["size_is_least"] or tag["bytes_is_least"])
        self.assertRegex(daemon.ctl("values", "marked").stdout, r"marked\{kind=record\} +3000 marked, \d+ KiB\n")
        value = daemon.metrics().value("memprofd_tag_values", pid=target.pid, tag="marked", kind="record")
        self.assertEqual(3000, value)
        target.command("mark 40000")
        tag = self.reported(daemon, target.pid, "marked")[0]["marked record"]["value"]
        self.assertEqual(("23000", True), (tag["size"], tag["bytes_is_least"]))
        target.command("forget")
        tag = self.reported(daemon, target.pid, "marked")[0]["marked record"]["value"]
        self.assertEqual(("1", False), (tag["size"], tag["bytes_is_least"]))

    def registry(self, target):
        """Its address."""
        with open(f"/proc/{target.pid}/maps") as maps:
            base = int(next(maps).split("-")[0], 16)
        notes = subprocess.run(["readelf", "-n", TARGETS / "reports"], capture_output=True, text=True).stdout
        return base + int(re.search(r"Name: values\n.*Semaphore: 0x([0-9a-f]+)", notes).group(1), 16) - 12

    def test_who_looks_no_longer(self):
        """A log line reads the clock only until the registry's end of viewing."""
        target = self.target("reports")
        observed_until = self.registry(target) + 128
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            for until, is_on in ((time.monotonic_ns() + 10**12, True), (1, False)):
                memory.seek(observed_until)
                memory.write(until.to_bytes(8, "little"))
                self.assertEqual(is_on, target.command("log a line")["on"])
            memory.seek(observed_until)
            self.assertEqual(0, int.from_bytes(memory.read(8), "little"))

    def check_log(self, daemon, target):
        self.assertTrue(target.command("log it's told")["on"])
        target.command("phase leave")
        lines = self.reported(daemon, target.pid)[1]["lines"]
        told = [(line["text"], line["phase_begins"], line["phase_ends"]) for line in lines]
        self.assertEqual([("load", True, False), ("it's told", False, False), ("load", False, True)], told)
        self.assertGreaterEqual(lines[0]["seconds_ago"], lines[2]["seconds_ago"])
        self.assertRegex(daemon.ctl("values").stdout, r"(?s)LOG\n.* ago  phase load begins\n.* ago  it's told\n")

    def test_ocaml4(self):
        self.check_version(TARGETS)

    def test_ocaml5(self):
        self.check_version(TARGETS5)

    def test_pauses(self):
        """Viewers stop at pauses; the program waits for one no longer than it specified."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder.name):
                target = self.target("reports", folder=folder)
                self.assertFalse(target.command("pause alone 1")["resumed"], "nobody is there")
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                self.assertIn("no thread of pid", daemon.ctl("resume", "--pid", target.pid).stdout)
                target.send("pause here 3600000")
                self.check_pause(daemon, target)
                self.assertFalse(target.command("pause again 0")["resumed"], "nothing waits")
                self.assertEqual(0, self.answer(daemon, target.pid)["waiting"])
                self.assertRegex(daemon.stderr(), rf"pid {target.pid}: resume by .*: done")

    def check_pause(self, daemon, target):
        waits = lambda: self.answer(daemon, target.pid)["waiting"] == 1
        harness.eventually(waits, "the program waits")
        self.assertRegex(daemon.ctl("values").stdout, r"(?s) ago  pause here\nthe program waits in a pause; ")
        watched = daemon.ctl("watch", "--pid", target.pid, "^count$").stdout
        self.assertRegex(watched, r"count  0 things\npause here\n$")
        self.assertIn("resumed", daemon.ctl("resume", "--pid", target.pid).stdout)
        self.assertTrue(json.loads(target.read_line())["resumed"])

    def ask_program(self, daemon, target, command, *arguments):
        """Repeats the command while the program runs."""
        asker = subprocess.Popen([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "ask", "--pid",
                                  str(target.pid), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while asker.poll() is None:
            target.command(command)
        return asker.returncode, *asker.communicate()

    def test_requests(self):
        """The program runs a request at its next minor collection, or only where it polls."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder.name):
                target = self.target("reports", folder=folder)
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                self.assertRegex(daemon.ctl("values").stdout, r"(?m)^careful +\(a request: memprofctl values call\)$")
                self.assertEqual((0, "42\n", ""), self.ask_program(daemon, target, "minor", "double", "21"))
                self.assertEqual((0, "ABC\n", ""), self.ask_program(daemon, target, "poll", "careful", "abc"))
                code, _, told = self.ask_program(daemon, target, "minor", "double", "x")
                self.assert_one_line(told, "the action 'double' raised Failure(\"int_of_string\")")
                asked = target.command("poll")["asked"]
                self.assertEqual(3, asked)
                code, _, told = self.ask_program(daemon, target, "minor", "careful", "--timeout", "0.5s")
                self.assertNotEqual(0, code)
                self.assert_one_line(told, "did not start 'careful' within 0.5 s, and the request is withdrawn")
                self.assertEqual(asked, target.command("poll")["asked"], "it was taken back")
                self.assertRegex(daemon.stderr(), rf"pid {target.pid}: ask 'double' by user 0.*: done")
                done = daemon.ctl("ask", "--pid", target.pid, "nothing", check=False)
                self.assert_one_line(done.stderr, "has no action 'nothing'")

    def test_the_usual_period(self):
        """The environment's period if valid, else a second; a value's own period has priority."""
        for said, usual in (("70", 70), ("", 1000), ("-5", 1000), ("often", 1000)):
            with self.subTest(said=said):
                target = self.target("reports", env=os.environ | {"MEMPROFD_PERIOD": said})
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                found, _ = self.reported(daemon, target.pid)
                self.assertEqual((usual, 1), (found["usual"]["period_ms"], found["half"]["period_ms"]))

    def test_places_for_marks(self):
        """Places of dead values are reused; on OCaml 5 only a major cycle shows that marked values
        are dead."""
        target = self.target("reports")
        self.assertLess(target.command("churn 9000000")["words"], 3_000_000)

    def test_nobody_looks(self):
        """Without a viewer no function is evaluated, no line is kept, and the heap is not used."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder.name):
                target = self.target("reports", folder=folder)
                self.assertFalse(target.command("log nobody")["on"])
                for _ in range(3):
                    self.assertEqual(0, target.command("minor")["evaluated"])
                self.assertLess(target.command("words 10000")["words"], 100)
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                self.assertFalse(target.command("log still nobody")["on"], "an attach is no look")
                lines = self.reported(daemon, target.pid)[1]["lines"]
                self.assertEqual({"load"}, {line["text"] for line in lines})

    def test_domains_lose_nothing(self):
        target = self.target("report_domains", folder=TARGETS5)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        for _ in range(3):
            words = target.command("hit 4 1000000")["words"]
            self.assertLess(words, 100, "words that 1,000,000 hits and 10,000 times allocate")
        found, _ = self.reported(daemon, target.pid)
        self.assertEqual("12000000", found["requests"]["hits"])
        self.assertEqual(("120000", "120000"), (found["handling"]["starts"], found["handling"]["stops"]))
        self.assertEqual([], found["requests"]["domains"], "nobody has asked for them")
        self.check_domains(daemon, target)
        for _ in range(3):
            target.command("mark 4 5000")
        tag = self.reported(daemon, target.pid)[0]["marked"]["value"]
        self.assertEqual(("60000", "32"), (tag["size"], tag["bytes"]), "no mark is lost, and two references hold memory")

    def check_domains(self, daemon, target):
        """Counts of each domain, and their sum."""
        found, _ = self.reported(daemon, target.pid, "--by-domain")
        for name, what in (("requests", "hits"), ("handling", "stops")):
            shares = found[name]["domains"]
            self.assertGreaterEqual(len(shares), 2, name)
            self.assertEqual(int(found[name][what]), sum(int(one[what]) for one in shares), name)
            self.assertEqual(len(shares), len({one["domain"] for one in shares if not one["is_others"]}), name)
        spent = [one["seconds"] for one in found["handling"]["domains"]]
        self.assertAlmostEqual(found["handling"]["seconds"], sum(spent))
        self.assertRegex(daemon.ctl("values", "--by-domain", "--pid", target.pid).stdout, r"\n  domain 1 +\d+\n")

    def test_domains_that_end_leave_their_places(self):
        """A new domain reuses the place: a tag of 100 successive domains is as large as that of
        one."""
        target = self.target("report_domains", folder=TARGETS5)
        one = target.command("ends 1")["words"]
        self.assertLess(target.command("ends 100")["words"], 2 * one)

    def test_all_is_whole(self):
        """At full speed: all letters of a text are equal, and each stop of a timer has a start."""
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.send("spin 100000")
        answers = self.ask(daemon, target.pid, pattern="^handling$|^c_text$", only_reported=True)
        texts, stops = [], []

        def read():
            timer, text = next(answers).reported
            if not timer.is_changing:
                self.assertEqual(timer.starts, timer.stops)
                stops.append(timer.stops)
            if not text.is_changing and text.value.text:
                self.assertEqual(text.value.text[0] * 200, text.value.text)
                texts.append(text.value.text)
            return min(len(set(texts)), len(set(stops)))
        for _ in range(READS):
            read()
        # A program that waits for a processor shows the same moment in many reads.
        harness.eventually(lambda: read() > 3, "whole, and of several moments")
        self.assertEqual(stops, sorted(stops))

    def check_library(self, folder):
        """Values in C memory disappear with their library; their counts stay."""
        target = self.target("reports", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        library = harness.BUILD / "targets/values_library.so"

        def said():
            found, _ = self.reported(daemon, target.pid)
            return found["library"]["value"], found["library_calls"]["hits"]
        for times in ("1", "2"):
            self.assertTrue(target.command(f"library {library}")["done"])
            value, calls = said()
            self.assertEqual(("7", times), (value["integer"], calls))
            self.assertEqual(7, daemon.metrics().value("memprofd_value", value="library"))
            self.assertTrue(target.command("library")["done"])
            self.assertNotIn(str(library), pathlib.Path(f"/proc/{target.pid}/maps").read_text())
            value, calls = said()
            self.assertEqual(("VALUE_KIND_UNREAD", "there is no block", times), (value["kind"], value["why_unread"], calls))
            self.assertEqual([], daemon.metrics().find("memprofd_value", value="library"))
            target.command("set 3")
            self.assertEqual("3", self.reported(daemon, target.pid)[0]["c_whole"]["value"]["integer"])

    def test_a_library_that_is_closed_ocaml4(self):
        self.check_library(harness.BUILD / "targets")

    def test_a_library_that_is_closed_ocaml5(self):
        self.check_library(TARGETS5)

    def test_marshalled_functions(self):
        """A copy counts like its original; OCaml 4 makes none."""
        for folder, is_copied in ((harness.BUILD / "targets", False), (TARGETS5, True)):
            with self.subTest(folder=folder):
                target = self.target("reports", folder=folder)
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                self.assertEqual(is_copied, target.command("marshal")["copied"])
                self.assertEqual(str(1 + is_copied), self.reported(daemon, target.pid)[0]["marshalled"]["hits"])

    def test_no_naked_pointers(self):
        """All pointers to outside of the heap, of the library and the agent, lead to valid headers;
        this runtime reports others. OCaml 4 may be configured to rely on that."""
        checked = TARGETS.parent / "targets-4.14-checked"
        if not (checked / "reports").exists():
            self.skipTest("make targets-4.14 makes the program")
        self.assertIn(b"non-black head", (checked / "reports").read_bytes())
        target = self.target("reports", folder=checked)
        daemon = self.daemon("--pid", target.pid, "--sampling-rate", "0.01")
        harness.eventually(lambda: target.command("churn 1000") and daemon.state(target.pid) == "sampling", "attached")
        for command in ("hit 100", "time 10", "phase enter", "set 1235", "mark 10", "marshal", "forget", "forget"):
            target.command(command)
        self.assertEqual("", target.stderr())

    def test_a_child_counts_for_itself(self):
        target = self.target("reports")
        target.command("hit 1000")
        target.command("time 10")
        target.command("set 1")
        target.command("phase enter")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        child = target.command("fork")["pid"]
        self.addCleanup(harness.kill, child)
        daemon.ctl("attach", "--pid", child, "--mode", "observe")
        found = harness.eventually(lambda: (f := self.reported(daemon, child)[0])["requests /a"]["hits"] == "3" and f,
                                   "the child's hits")
        self.assertEqual("0", found["c_requests /c get"]["hits"])
        self.assertEqual(("0", 0), (found["handling"]["stops"], found["handling"]["seconds"]))
        self.assertEqual("1", found["setting in C"]["durations"]["count"])
        self.assertEqual([], self.reported(daemon, child)[1]["lines"])
        self.assertEqual("4000", self.reported(daemon, target.pid)[0]["requests /a"]["hits"])

    def test_a_child_that_is_forked_while_others_write(self):
        """Locks held by other threads at the fork are free in the child."""
        for folder in (TARGETS, TARGETS5):
            with self.subTest(folder=folder.name):
                self.assertEqual(200, self.target("reports", folder=folder).command("forks 200")["well"])

    def test_too_many_names(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("many 1000")
        found, answer = self.reported(daemon, target.pid)
        refused = int(answer["refused_names"])
        self.assertGreater(refused, 490)
        self.assertEqual(str(refused), found["other"]["hits"])
        own = [one for one in found.values() if one["name"].isdigit()]
        self.assertEqual((1000 - refused, {"1"}), (len(own), {one["hits"] for one in own}))
        self.assertIn(f"{refused} points, timers or values found no place", daemon.ctl("values").stdout)
        metrics = daemon.metrics()
        self.assertLessEqual(len(metrics.find("memprofd_point_hits_total")), 200)
        self.assertEqual(len(answer["reported"]) - 200, metrics.value("memprofd_reported_names_without_series"))
        self.assertEqual(refused, metrics.value("memprofd_reported_refused_names_total"))

    def test_metrics(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("hit 10")
        target.command("set 42")
        target.command("time 5")
        metrics = daemon.metrics()
        for name, labels, value in (
                ("memprofd_point_hits_total", {"point": "requests", "unit": "requests", "route": "/a"}, 40),
                ("memprofd_timer_stops_total", {"timer": "handling"}, 5),
                ("memprofd_timer_duration_seconds_count", {"timer": "handling"}, 5),
                ("memprofd_timer_duration_seconds_bucket", {"timer": "handling", "le": "+Inf"}, 5),
                ("memprofd_timer_running", {"timer": "waiting", "queue": "in"}, 1),
                ("memprofd_value", {"value": "count", "unit": "things"}, 42),
                ("memprofd_value", {"value": "ratio"}, 10.5),
                ("memprofd_value", {"value": "flag"}, 0),
                ("memprofd_value", {"value": "c_whole", "unit": "things"}, 42),
                ("memprofd_table_bindings", {"table": "table"}, 42),
                ("memprofd_reported_names_without_series", {}, 0)):
            with self.subTest(name=name, labels=labels):
                self.assertEqual(value, metrics.value(name, pid=target.pid, **labels))

    def test_watch(self):
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("set 7")
        looks = [json.loads(line) for line in
                 daemon.ctl("watch", "^count$", "^requests", r"^Reports\[", "-n", "2", "-d", "0.1", "-o", "json")
                 .stdout.splitlines()]
        self.assertEqual(2, len(looks))
        self.assertEqual({"count", "requests"}, {one["name"] for one in looks[1]["reported"]})
        self.assertIn("Reports", {one["module"] for one in looks[1]["values"]})
        lines = daemon.ctl("watch", "^count$", "-n", "3", "-d", "0.1").stdout.splitlines()
        self.assertEqual(1, len(lines), "what does not change is shown once")
        self.assertRegex(lines[0], r"^\d\d:\d\d:\d\d  count  7 things$")
        watch = self.process(harness.Process([harness.BUILD / "memprofctl", "--grpc.socket", daemon.socket, "values", "^count$",
                                              "--watch"]))
        harness.eventually(lambda: any("count  7 things" in line for line in watch.output), "it shows it")
        target.command("set 8")
        harness.eventually(lambda: any("count  8 things" in line for line in watch.output), "it goes on")
        done = daemon.ctl("watch", "nothing", check=False)
        self.assertEqual(3, done.returncode)
        self.assert_one_line(done.stderr, "no value of pid", "nothing")

    def check_watch(self, folder):
        """Each change is reported once, whatever changed."""
        target = self.target("reports", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        target.command("set 7")
        looks = self.follow(daemon, target.pid, 0.05)
        first = next(looks).changed
        tables = [one.name for one in first.values if one.value.size == 7 and one.value.buckets > 0]
        self.assertEqual(1, len(tables), "its table")
        self.assertLessEqual({"count", "requests", "table"}, {one.name for one in first.reported})

        def after(command):
            """Names of changes until all are reported; their numbers; lines."""
            target.command(command)
            names, numbers, lines, quiet = [], {}, [], 0
            while quiet < 3:
                look = next(looks).changed
                told = [*look.values, *(one for one in look.reported if one.name not in ("waiting", "clock"))]
                names += [one.name for one in told]
                numbers.update({one.name: one.value.integer or one.value.size for one in look.reported})
                lines += [line.text for line in look.lines]
                quiet = quiet + 1 if not told and not look.lines else 0
            return names, numbers, lines
        names, numbers, _ = after("set 8")
        self.assertLessEqual({*tables, "count", "table"}, set(names))
        self.assertEqual((8, 8), (numbers["count"], numbers["table"]))
        self.assertNotIn("requests", names)
        names, _, lines = after("log told once")
        self.assertEqual(["told once"], lines)
        self.assertNotIn("count", names)
        target.kill()
        with self.assertRaises(grpc.RpcError) as ended:
            list(looks)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, ended.exception.code())

    def test_the_next_program(self):
        """The next program has the same modules at other addresses; its values are not reported for
        the previous one."""
        for folder, other in ((TARGETS, TARGETS5), (TARGETS5, TARGETS)):
            with self.subTest(folder=folder.name):
                target = self.target("reports", folder=folder)
                daemon = self.daemon("--pid", target.pid, "--mode", "observe")
                target.command("set 7")
                looks = self.follow(daemon, target.pid, 0.01, pattern="^count$")
                self.assertEqual([7], [one.value.integer for one in next(looks).changed.reported])
                target.send(f"exec {other / 'reports'}")
                with self.assertRaises(grpc.RpcError) as ended:
                    for look in looks:
                        self.assertEqual([], list(look.changed.reported))
                self.assertEqual(grpc.StatusCode.NOT_FOUND, ended.exception.code())

    def test_only_what_has_changed_ocaml4(self):
        self.check_watch(TARGETS)

    def test_only_what_has_changed_ocaml5(self):
        self.check_watch(TARGETS5)

    def test_a_damaged_registry(self):
        """A damaged entry costs only a message."""
        target = self.target("reports")
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        self.reported(daemon, target.pid)
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.registry(target) + 64)
            memory.write(b"\xff" * 4)
        self.assertRegex(daemon.ctl("values").stdout, r"(?ms)^Reports\[\d+\] .*^published values cannot be read: ")
        metrics = daemon.metrics()
        self.assertEqual([], metrics.find("memprofd_point_hits_total"))
        self.assertEqual(1, metrics.value("memprofd_reported_refusals_total"))


if __name__ == "__main__":
    unittest.main()
