# SPDX-License-Identifier: Apache-2.0
"""What --help says: each option in a sentence that begins with a verb, in words and not in numbers of enums."""

import re
import subprocess
import unittest

from harness import BUILD, USAGE

# A text that begins otherwise is a fragment, or wants its verb here.
VERBS = set("""
Ask Attach Change Check Choose Compare Count Display Divide Draw Enable Follow Give Group Have Inject Keep Leave Let List
Log Lower Match Name Print Profile Reach Read Record Serve Show Sort Start Stop Take Use Watch Write
""".split())
# "  -n,--limit INT:...   Show ..." or a text in the next line; subcommands are one word.
ENTRY = re.compile(r"^  (-{1,2}[A-Za-z]|[a-z]+ )")


def help_of(program, *words):
    return subprocess.run([BUILD / program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def entries(text):
    """(option or subcommand, first word of its text)."""
    text = re.split(r"(?:Positionals|Options|Subcommands):\n", text, maxsplit=1)[1]
    lines = text.split("\nExit codes")[0].split("\nKeys on the screen")[0].split("\n")
    for at, line in enumerate(lines):
        if not ENTRY.match(line):
            continue
        # A head that is too long pushes the text into the next line.
        below = lines[at + 1].startswith(" " * 30)
        head, said = (line, lines[at + 1].strip()) if below else (line[:30], line[30:])
        yield head.strip(), said.split(" ")[0]


def commands():
    listed = help_of("memprofctl").split("Subcommands:")[1].split("\n\n")[0]
    for name in re.findall(r"^  ([a-z]+) ", listed, re.M):
        yield (name,)
    for name in re.findall(r"^  ([a-z]+) ", help_of("memprofctl", "trace").split("Subcommands:")[1], re.M):
        yield "trace", name


class Help(unittest.TestCase):
    def assert_sentences(self, text):
        found = list(entries(text))
        self.assertGreater(len(found), 0, text)
        for name, word in found:
            with self.subTest(name):
                self.assertTrue(word in VERBS, f"begins with {word!r}")
        self.assertNotRegex(text, "->")

    def test_of_memprofd(self):
        self.assert_sentences(help_of("memprofd"))

    def test_of_memprofctl(self):
        self.assert_sentences(help_of("memprofctl"))

    def test_of_all_its_commands(self):
        names = list(commands())
        self.assertGreater(len(names), 15)
        for words in names:
            with self.subTest(words):
                self.assert_sentences(help_of("memprofctl", *words))

    def test_o_is_a_format(self):
        """Where it was a file, it says what it is now."""
        for spelling in ("-o", "--output"):
            done = subprocess.run([BUILD / "memprofctl", "record", spelling, "trace.ctf"], capture_output=True, text=True)
            self.assertEqual(USAGE, done.returncode)
            self.assertEqual("-o,--output: is for formats; name the file by --out trace.ctf",
                             done.stderr.splitlines()[0])
        self.assertNotRegex(help_of("memprofctl", "record"), r"[ ,]-o\b")


if __name__ == "__main__":
    unittest.main()
