# SPDX-License-Identifier: Apache-2.0
"""What modules hold is told as it is: equal to what the program has set, never a mix of two moments."""

import re
import subprocess
import tempfile
import unittest

import grpc

import harness
from harness import PRIVILEGES, TARGETS, TARGETS5, E2ETest
from test_profiles import message_modules

SOURCE = (harness.ROOT / "tests/targets/values.ml").read_text()
SOURCE5 = (harness.ROOT / "tests/targets/value_domains.ml").read_text()
READS = 100_000 if harness.MATRIX else 300
SECRET = "correct horse battery staple"


def fields_of(source):
    """Names of a module in the order in which it has them: that of their definitions."""
    return re.findall(r"^(?:let(?: rec)?|module) (\w+)", source, re.M)


def integers(value):
    """All in a value as gRPC has it."""
    if value.kind == 1:
        yield value.integer
    elif value.kind == 2:
        yield int(value.number)
    for field in value.fields:
        yield from integers(field)


class ValuesTest(E2ETest):
    def values(self, daemon, pid, *arguments):
        """By name in the source, as memprofctl has them."""
        listed = daemon.ctl_json("values", *arguments, "^Values", "--pid", str(pid))["values"]
        names = fields_of(SOURCE)
        return {names[v["field"]]: v["value"] for v in listed}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="memprofd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.pb, = message_modules(folder.name, "memprof/v1/values.proto")

    def ask(self, daemon, pid, **request):
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            call = channel.unary_unary("/memprof.v1.Values/ListValues",
                                       request_serializer=self.pb.ListValuesRequest.SerializeToString,
                                       response_deserializer=self.pb.ListValuesResponse.FromString)
            request = self.pb.ListValuesRequest(pid=pid, **request)
            while True:
                yield call(request, timeout=harness.TIMEOUT)


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

    def test_constants_when_asked_for(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        found = self.values(daemon, target.pid, "--constants")
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
    """Values that are replaced at full speed: each holds one number."""

    def check_whole(self, daemon, pid, names, pattern, rounds):
        seen, skipped = {name: set() for name in names.values()}, 0
        answers = self.ask(daemon, pid, pattern=pattern, limit=100)
        for _ in range(rounds):
            for named in next(answers).values:
                name = names.get(named.field)
                if name is None:
                    continue
                if named.value.kind == 16 or named.value.is_changing:
                    skipped += 1
                    continue
                numbers = set(integers(named.value))
                self.assertEqual(1, len(numbers), (name, named.value))
                seen[name] |= numbers
        for name, numbers in seen.items():
            self.assertGreater(len(numbers), 3, f"{name}: of several moments; {skipped} were not read")
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
        """Those who may control the program."""
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        daemon.socket.chmod(0o666)
        for folder in [self.folder, *self.folder.parents][:2]:
            folder.chmod(0o755)
        asked = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", harness.BUILD / "memprofctl",
                                "--grpc.socket", daemon.socket, "values", "--pid", str(target.pid)],
                               capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual(PRIVILEGES, asked.returncode, asked.stdout)
        self.assert_one_line(asked.stderr, "user 65534")

    def test_what_is_wrong(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        for arguments, words in ((("(",), "bad name pattern"), (("--pid", "1"), "pid 1 is not being profiled")):
            with self.subTest(arguments):
                done = daemon.ctl("values", *arguments, check=False)
                self.assertNotEqual(0, done.returncode)
                self.assert_one_line(done.stderr, words)

    def test_an_end_in_the_middle(self):
        target = self.target("values")
        daemon = self.daemon("--pid", target.pid)
        daemon.ctl("values")
        target.kill()
        done = daemon.ctl("values", "--pid", target.pid, check=False)
        self.assertNotEqual(0, done.returncode)
        self.assert_one_line(done.stderr, str(target.pid))


if __name__ == "__main__":
    unittest.main()
