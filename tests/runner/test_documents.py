# SPDX-License-Identifier: Apache-2.0
"""Documents match the programs (metrics, exit codes, messages), links work, and README.md is short."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"bytes": "bytes", "seconds": "seconds", "ratio": "1 is 100 %"}
METRICS_HEAD = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n"


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return listed.split() or [str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]]


# ---------------------------------------------------------------- metrics


def families(exposition):
    """{name: (type, help, labels)} of metrics in Prometheus' text format."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposition, re.M))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", exposition, re.M))
    labels = {name: [] for name in types}
    for series, inside in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", exposition, re.M):
        name = series if series in types else re.sub("_(bucket|count|sum)$", "", series)
        labels[name] += [label for label in re.findall(r'(\w+)="', inside) if label not in [*labels[name], "le"]]
    return {name: (types[name], helps[name], labels[name]) for name in types}


def unit(name):
    if name.endswith("_sampling_rate"):
        return "samples a word"
    stem = re.sub("_(total|stderr)$", "", name).rpartition("_")[2]
    return UNITS.get(stem, "")


def row(name, kind, meaning, labels):
    return f"| `{name}` | {kind} | {unit(name)} | {', '.join(labels)} | {meaning} |"


class Metrics(unittest.TestCase):
    def setUp(self):
        self.families = families(text("tests/golden/metrics.txt"))

    def test_the_list_is_what_memprofd_writes(self):
        expected = METRICS_HEAD + "\n".join(row(name, kind, meaning, labels) for name, (kind, meaning, labels)
                                            in self.families.items()) + "\n"
        _, head, rows = text("docs/metrics.md").partition(METRICS_HEAD)
        table = head + "".join(re.match(r"((?:\|.*\n)*)", rows).group(1))
        self.assertMultiLineEqual(expected, table, "docs/metrics.md should have the rows of the first one")

    def test_the_golden_file_has_every_metric_of_the_source(self):
        named = set()
        for path in (ROOT / "daemon").rglob("*.cc"):
            named |= set(re.findall(r'MetricName \w+\{\s*"(\w+)"', path.read_text()))
        self.assertGreater(len(named), 30)
        self.assertEqual(named, set(self.families))


# ---------------------------------------------------------------- exit codes


class ExitCodes(unittest.TestCase):
    def test_the_table_is_that_of_the_source(self):
        source = dict(re.findall(r"^  k\w+ = (\d+), +// (.+)$", text("daemon/util/exit_codes.h"), re.M))
        table = dict(re.findall(r"^\| (\d+) \| (.+) \|$", text("docs/ctl.md").partition("## Exit codes")[2], re.M))
        self.assertEqual(11, len(source))
        self.assertEqual(source, table)
        self.assertEqual(len(table), len(set(table.values())), "one meaning each")
        in_help = re.search(r"kExitCodeHelp\[\] =((?:\s+\".*\")+);", text("daemon/util/exit_codes.h")).group(1)
        self.assertEqual(list(source), re.findall(r"\b(\d+) [a-z]", in_help))


# ---------------------------------------------------------------- messages


def messages():
    """All string literals of memprofd and memprofctl; adjacent literals are joined, as the compiler does."""
    joined = ""
    for path in sorted([*(ROOT / "daemon").rglob("*.cc"), *(ROOT / "daemon").rglob("*.h")]):
        joined += re.sub(r'"\s*\+?\s*"', "", path.read_text())
    return joined.replace('\\"', '"')


class Messages(unittest.TestCase):
    def test_troubleshooting_quotes_messages_that_exist(self):
        """A row may shorten a message with …, and separate several messages by semicolons."""
        known = messages()
        tables = re.findall(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", text("docs/troubleshooting.md"), re.M)
        quoted = [row.split("|")[1] for table in tables for row in table.splitlines()]
        self.assertGreater(len(quoted), 80)
        parts = {part.strip(" :,.") for cell in quoted for part in re.split("[;…]", cell)}
        self.assertEqual([], sorted(part for part in parts if part.count(" ") > 1 and part not in known))

    def test_memory_from_malloc_has_one_name(self):
        """Users search the troubleshooting page for words of messages, so both use the same term."""
        self.assertIn("the native heap is not followed", messages())
        self.assertNotIn("C memory", messages())


# ---------------------------------------------------------------- links and size


def anchors(document):
    """The anchors that GitHub generates from headings."""
    heads = re.findall(r"^#+ (.+)$", text(document), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in documents():
            for link in re.findall(r"\]\(([^)#\s]*(?:#[^)\s]*)?)\)", text(document)):
                path, _, anchor = link.partition("#")
                if re.match("https?:", path):
                    continue
                target = (ROOT / document).parent / path if path else ROOT / document
                with self.subTest(document=document, link=link):
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(target.resolve().relative_to(ROOT)))

    def test_files_that_are_named_are_there(self):
        folders = "daemon|docs|tests|deploy|dashboards|bpf|agent-lib|proto"
        for document in documents():
            for path in re.findall(rf"`((?:{folders})/[\w./-]+\w/?)`", text(document)):
                with self.subTest(document=document, path=path):
                    self.assertTrue((ROOT / path).exists())

    def test_the_readme_stays_short(self):
        lines = text("README.md").splitlines()
        self.assertLessEqual(len(lines), 130)
        self.assertEqual([], [line for line in lines if len(line) > 100])


if __name__ == "__main__":
    unittest.main()
