# SPDX-License-Identifier: Apache-2.0
"""Command lines: --help describes each option in words and not in numbers of enums, errors name the option and the
remedy, and the last occurrence of an option wins. Text of programs is made printable; memprofd raises its own limits."""

import os
import re
import subprocess
import tempfile
import unittest

import harness
from harness import BUILD, LIMIT, USAGE, E2ETest

LONGEST_MESSAGE = 250

# "  -n,--limit INT:...   Show ..." or a text in the next line; subcommands are one word.
ENTRY = re.compile(r"^  (-{1,2}[A-Za-z]|[a-z-]+ )")


def help_of(program, *words, option="--help"):
    return subprocess.run([BUILD / program, *words, option], capture_output=True, text=True, check=True).stdout


def all_of_memprofctl():
    return help_of("memprofctl", option="--help-all")


def entries(text):
    """(option or subcommand, first word of its text)."""
    text = re.split(r"(?:Positionals|Options|Subcommands):\n", text, maxsplit=1)[1]
    lines = text.split("\nExit codes")[0].split("\nKeys on the screen")[0].split("\n")
    for at, line in enumerate(lines):
        if not ENTRY.match(line):
            continue
        # A long head pushes the text to the next line.
        below = lines[at + 1].startswith(" " * 30)
        head, said = (line, lines[at + 1].strip()) if below else (line[:30], line[30:])
        yield head.strip(), said.split(" ")[0]


def commands():
    listed = all_of_memprofctl().split("Subcommands:")[1].split("\n\n")[0]
    for name in re.findall(r"^  ([a-z-]+) ", listed, re.M):
        yield (name,)
    for group in ("trace", "snapshot", "values"):
        for name in re.findall(r"^  ([a-z]+) ", help_of("memprofctl", group).split("Subcommands:")[1], re.M):
            yield group, name


class Help(unittest.TestCase):
    def assert_sentences(self, text):
        found = list(entries(text))
        self.assertGreater(len(found), 0, text)
        for name, word in found:
            with self.subTest(name):
                self.assertRegex(word, "^[A-Z]")
        self.assertNotRegex(text, "->")

    def test_of_memprofd(self):
        self.assert_sentences(help_of("memprofd"))

    def test_all_commands_fit_a_screen(self):
        """The overview fits 24 lines of 100 columns with the prompt, and lists grouped commands."""
        lines = help_of("memprofctl").splitlines()
        self.assertLess(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 100)
        named = {name for line in lines for name in re.findall(r"[a-z][a-z-]+", line[:27]) if line.startswith("  ") and line[2] != "-"}
        self.assertEqual({name for name, *below in commands() if not below}, named)

    def test_the_document_has_the_same_list(self):
        listed = "\n".join(f"    {line}".rstrip() for line in help_of("memprofctl").splitlines()[3:])
        self.assertIn(f"\n\n{listed}\n\n", (harness.ROOT / "docs/ctl.md").read_text())

    def test_earlier_names_of_commands(self):
        """They remain commands with the same options, but no help lists them."""
        for earlier, *now in (("watch", "values", "watch"), ("value-history", "values", "history"), ("adjust", "values", "set"),
                              ("ask", "values", "call"), ("resume", "values", "resume"), ("record", "trace", "record"),
                              ("dump", "trace", "dump")):
            with self.subTest(earlier):
                self.assertEqual(help_of("memprofctl", earlier).replace(f"memprofctl {earlier}", ""),
                                 help_of("memprofctl", *now).replace(f"memprofctl {' '.join(now)}", ""))
                self.assertNotRegex(all_of_memprofctl(), rf"(?m)^  {earlier} ")

    def test_of_memprofctl(self):
        self.assert_sentences(all_of_memprofctl())

    def test_of_all_its_commands(self):
        names = list(commands())
        self.assertGreater(len(names), 15)
        for words in names:
            with self.subTest(words):
                self.assert_sentences(help_of("memprofctl", *words))

    def test_o_is_a_format(self):
        """If given a file, -o reports its present meaning."""
        for spelling in ("-o", "--output"):
            done = subprocess.run([BUILD / "memprofctl", "record", spelling, "trace.ctf"], capture_output=True, text=True)
            self.assertEqual(USAGE, done.returncode)
            self.assertEqual("memprofctl: -o,--output: selects a format; name the file with --out trace.ctf; "
                             "`memprofctl record --help` lists the options", done.stderr.splitlines()[0])
        self.assertNotRegex(help_of("memprofctl", "record"), r"[ ,]-o\b")


def said_of(*options, program="memprofd", code=USAGE):
    done = subprocess.run([BUILD / program, *options], capture_output=True, text=True, timeout=harness.TIMEOUT)
    if done.returncode != code:
        raise AssertionError(f"{options}: ended with {done.returncode}: {done.stderr}")
    return done.stderr + done.stdout


class BadOptions(unittest.TestCase):
    def test_are_told_in_words(self):
        for options, words in ((("--pid", "0"), '"0" is not a pid'), (("--pid", "abc"), '"abc" is not a pid'),
                               (("--history.retention", "often"), "such as 90s, 5m or 2h"),
                               (("--history.memory=-1",), "-1"), (("--history.memory", "1KiB"), "not between 64.0 KiB"),
                               (("--ring-bytes", "3"), "not between 256 KiB and 1.00 GiB"),
                               (("--ring-bytes", "2147483648"), "not between 256 KiB and 1.00 GiB"),
                               (("--mode", "foo"), "none of auto, agent, observe"),
                               (("--capture", "2"), "none of auto, kernel, runtime, agent"),
                               (("--trace.directory", "/nowhere/traces"), "--trace.directory")):
            with self.subTest(options):
                said = said_of(*options)
                self.assertIn(words, said)
                self.assertLess(len(said), LONGEST_MESSAGE)

    def test_a_recording_without_end_is_not_begun_by_mistake(self):
        self.assertIn("above 0", said_of("record", "--pid", "1", "--duration", "0s", "--out", "/dev/null",
                                         program="memprofctl"))


    def test_what_stands_later_counts_for_memprofctl_too(self):
        said = said_of("--grpc.socket", "/nowhere/first", "targets", "--grpc.socket", "/nowhere/second", "-o", "json",
                       "-o", "table", program="memprofctl", code=harness.UNAVAILABLE)
        self.assertIn("unix:/nowhere/second", said)

    def test_a_name_that_matches_nothing_is_refused(self):
        for name, reason in (("", "an empty name matches nothing"), ("[", "has a [ without its ]"), ("shop-[!]", "has a [ without its ]"),
                             ("shop\\", "ends with a backslash")):
            with self.subTest(name):
                self.assertIn(reason, said_of("--name", name))

    def test_a_command_that_there_is_not(self):
        for words, text in ((("snapshto", "take"), 'unknown command "snapshto"; `memprofctl --help` lists'),
                            (("snapshot", "foo"), 'unknown command "snapshot foo"; `memprofctl snapshot --help` lists'),
                            (("trace", "foo", "bar"), 'unknown command "trace foo"; `memprofctl trace --help` lists'),
                            (("trace",), "missing command; `memprofctl trace --help` lists"),
                            ((), "missing command; `memprofctl --help` lists")):
            with self.subTest(words):
                self.assertEqual(f"memprofctl: {text} all commands\n", said_of(*words, program="memprofctl"))

    def test_arguments_of_memprofctl(self):
        for words, text in ((("attach", "abc"), "bad pid abc"), (("attach",), "missing argument PID"),
                            (("attach", "0"), "bad pid 0: write a number above 0"),
                            (("top", "--last", "1m"), "--window 1m"),
                            (("check",), "program is required; `memprofctl check --help` lists the options"),
                            (("--foo",), "there is no option --foo; `memprofctl --help` lists the options"),
                            (("values", "--watch", "--by-domain"), "--watch takes no --graph, --by-domain, --snapshot or --for"),
                            (("targets", "--pid", "3"), "there is no option --pid; `memprofctl targets --help` lists the options"),
                            (("values", "show", "--cmt", "x"), "no option --cmt; `memprofctl values --help` lists the options"),
                            (("run", "-n", "3", "--", "ls"), "no option -n; `memprofctl run --help` lists the options"),
                            (("--last", "3s", "sites"), "write --last after the command: memprofctl sites --last ..."),
                            (("targets", "now"), 'unexpected argument "now"; `memprofctl targets --help` lists the options')):
            with self.subTest(words):
                self.assertRegex(said_of(*words, program="memprofctl"), rf"\Amemprofctl: .*{text}\n\Z")

    def test_an_option_that_there_is_not(self):
        self.assertEqual("memprofd: there is no option --nmae; `memprofd --help` lists the options\n", said_of("--nmae", "shop"))
        self.assertEqual('memprofd: unexpected argument "shop"; `memprofd --help` lists the options\n', said_of("shop"))

    def test_a_value_that_is_not_allowed(self):
        self.assertRegex(said_of("--pid", "x"), r"\Amemprofd: .*is not a pid.*\n\Z")
        self.assertRegex(said_of("--c-heap-max-hits", "0"), r"\Amemprofd: .*not in range 1 to \d+\n\Z")
        self.assertNotIn("[1 - ", subprocess.run([harness.BUILD / "memprofd", "--help"], capture_output=True, text=True,
                                                 check=True).stdout)

    def test_a_name_is_no_target(self):
        said = said_of("leaks", "my_shop", program="memprofctl", code=harness.NO_PROCESS)
        self.assertIn("my_shop is neither a pid nor a trace file; find the pid with: pgrep -n my_shop", said)

    def test_a_duration_needs_a_unit(self):
        self.assertIn("write a number and a unit", said_of("--history.retention", "5"))
        self.assertIn("write a number and a unit", said_of("sites", "--last", "5", program="memprofctl"))

    def test_a_typo_in_the_socket_makes_no_folders(self):
        with tempfile.TemporaryDirectory(prefix="memprofd-test-") as folder:
            said = said_of("--grpc.socket", f"{folder}/rum/memprofd/memprofd.sock", "--web.listen-address", "127.0.0.1:0")
            self.assertIn("No such file or directory", said)
            self.assertEqual([], os.listdir(folder))


class Options(E2ETest):
    def test_the_port_of_http_is_not_that_of_grpc(self):
        daemon = self.daemon()
        said = said_of("--address", f"127.0.0.1:{daemon.port}", "targets", program="memprofctl", code=harness.UNAVAILABLE)
        self.assertIn("is an HTTP port; give the address of memprofd's --grpc.listen-address", said)

    def test_commands_in_messages_reach_this_memprofd(self):
        daemon = self.daemon()
        for command in (("detach", "999999"), ("leaks", "--pid", "999999")):
            with self.subTest(command):
                said = daemon.ctl(*command, check=False).stderr
                self.assertIn(f"`memprofctl targets --grpc.socket {daemon.socket}`", said)

    def test_what_stands_later_counts(self):
        """Options of /etc/default/memprofd follow those of the unit."""
        elsewhere = self.folder / "elsewhere.sock"
        daemon = self.daemon("--grpc.socket", elsewhere, "--history.retention", "5m", "--history.memory", "1.5G")
        self.assertFalse(daemon.socket.exists())
        self.assertEqual({}, {t["pid"]: t for t in harness.json.loads(
            harness.memprofctl("--grpc.socket", elsewhere, "targets", "-o", "json").stdout)["targets"]})

    def test_the_start_is_one_line_of_the_log(self):
        """The line has version, rules, directories and listeners."""
        state = self.folder / "state"
        state.mkdir()
        daemon = self.daemon("--name", "shop-[ab]*", "--state.directory", state)
        (line,) = [line for line in daemon.stderr().splitlines() if " starts: " in line]
        self.assertRegex(line, rf"memprofd [\d.]+.* starts: name shop-\[ab\]\*; state {state}; gRPC {daemon.socket}; HTTP 127.0.0.1:\d+")

    def test_a_full_disk_is_no_internal_error(self):
        target = self.target("known_alloc")
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        self.sample_on_command(daemon, target)
        done = daemon.ctl("sites", "--pid", target.pid, "--out", "/dev/full", check=False)
        self.assertEqual(LIMIT, done.returncode, done.stderr)
        self.assert_one_line(done.stderr, "/dev/full", "No space left")


class OwnWords(E2ETest):
    def test_a_name_cannot_write_to_the_terminal(self):
        """Escapes reach neither standard output nor the log, and a newline adds no line."""
        (self.folder / '\x1b[31mE\nx"y').symlink_to(harness.TARGETS / "known_alloc")
        target = self.target('\x1b[31mE\nx"y', folder=self.folder)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)
        harness.eventually(lambda: len(daemon.output) == 2, "it has said what it has attached to")
        self.assertRegex(daemon.said(), r"\A[\n\x20-\x7e\u00a0-\uffff]*\Z")
        self.assertRegex(daemon.output[0], rf"^pid {target.pid}: .*E.x\"y \(OCaml ")

    def test_as_many_descriptors_as_it_may_have(self):
        daemon = self.daemon(prefix=["prlimit", "--nofile=512:4096"])
        with open(f"/proc/{daemon.pid}/limits", encoding="utf-8") as limits:
            soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits.read()).groups()
        self.assertEqual(("4096", "4096"), (soft, hard))


if __name__ == "__main__":
    unittest.main()
