# SPDX-License-Identifier: Apache-2.0
"""The layout shows the data's way: what may include what, and whose the files are."""

import collections
import graphlib
import itertools
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The stages in the data's order: a file includes what stands in its own line or above it.
STAGES = """
util/threads
util
model
runtime
discover/memory
discover
symbolize
snapshot
snapshot/file
snapshot/types
snapshot/answers
snapshot/sql
rss
attach/kernel
attach/inject
attach/budget
attach
aggregate
ingest
history
query
rules
state
pipeline
trace/ctf
trace
heapdump
values
calls
export/formats
export/clients
export/api
export/metrics
export/heaps
export/http
export/grpc
doctor
control
run
ctl/render ctl/top ctl/snapshot ctl
"""
COSTLY = {"daemon/util/log.cc", "daemon/util/one_of.h", "daemon/config.cc", "daemon/ctl/main.cc",
          "daemon/ctl/query_options.cc", "daemon/ctl/snapshot/snapshot_options.cc",
          # commands
          "daemon/ctl/adjust.cc", "daemon/ctl/ask.cc", "daemon/ctl/commands.cc", "daemon/ctl/leaks.cc",
          "daemon/ctl/live_why.cc", "daemon/ctl/question_commands.cc", "daemon/ctl/run_options.cc", "daemon/ctl/snapshot/query_command.cc",
          "daemon/ctl/snapshot/snapshot_commands.cc", "daemon/ctl/snapshot_take.cc", "daemon/ctl/stream_commands.cc",
          "daemon/ctl/trace_calls.cc", "daemon/ctl/value_history.cc", "daemon/ctl/values.cc", "daemon/ctl/watch.cc"}
# Mutexes that guard no data: only one thread at a time does something.
TURNS = {"web_config.h hashing_", "published_request.cc mutex"}
# Whose form the licence's line has: a program of the kernel is under its licence too.
LICENSED = re.compile(r"SPDX-License-Identifier: (Apache-2\.0|\(GPL-2\.0-only OR BSD-2-Clause\))( \*/| \*\))?$", re.M)
# What cannot have a comment (pages are shown as they are), and text for people.
DATA = {".json", ".md", ".txt", ".ctf", ".png", ".svg", ".html"}


def tracked():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePosixPath(name) for name in names.splitlines() if (ROOT / name).is_file()]


def rank_of(path):
    """Of a file of daemon/; the files that are directly in it tie all together."""
    folder = str(path.parent.relative_to("daemon"))
    ranks = {name: rank for rank, line in enumerate(STAGES.split("\n")) for name in line.split()}
    return len(ranks) + 1 if folder == "." else ranks[folder]


class Layout(unittest.TestCase):
    def test_thread_sanitizer_watches_what_has_threads(self):
        """The short form of its build takes other folders as they ship."""
        makefile = (ROOT / "daemon/daemon.mk").read_text()
        folders = re.search(r"^  UNWATCHED := ((?:.*\\\n)*.*)$", makefile, re.M)[1].replace("\\", "").split()
        self.assertTrue(folders)
        for folder in folders:
            paths = [path for path in (ROOT / "daemon" / folder).iterdir() if path.suffix in (".cc", ".h")]
            self.assertTrue(paths, folder)
            for path in paths:
                self.assertNotRegex(path.read_text(), r"\bMutex\b|std::(j?thread|async|atomic)\b|\bstart_(thread|async)\b", str(path))

    def test_a_stage_includes_no_later_one(self):
        wrong, seen = [], 0
        for path in tracked():
            if path.parts[0] != "daemon" or path.suffix not in (".cc", ".h"):
                continue
            for included in re.findall(r'^#include "(daemon/[^"]+)"', (ROOT / path).read_text(), re.M):
                seen += 1
                if rank_of(pathlib.PurePosixPath(included)) > rank_of(path):
                    wrong.append(f"{path} includes {included}")
        self.assertGreater(seen, 500)
        self.assertEqual([], wrong)

    def test_the_folders_have_an_order(self):
        """The stages of a folder stand together, so that no two folders of daemon/ include each other."""
        rooms = [name.split("/")[0] for line in STAGES.split("\n") for name in line.split()]
        together = [room for room, _ in itertools.groupby(rooms)]
        self.assertGreater(len(together), 20)
        self.assertEqual(sorted(set(together)), sorted(together))

    def test_the_agent_has_an_order(self):
        """Each pair of files of the agent uses others that do not use it: nothing goes round."""
        uses = collections.defaultdict(set)
        for path in [path for folder in ("agent-lib", "agent-lib/native_heap", "agent-lib/values", "agent-lib/walk")
                     for path in (ROOT / folder).glob("*.[ch]")]:
            included = re.findall(r'^#include "(?:\.\./|walk/|native_heap/|values/)?(\w+)\.h"', path.read_text(), re.M)
            uses[path.stem] |= set(included) - {path.stem}
        self.assertGreater(len(uses), 10)
        list(graphlib.TopologicalSorter(uses).static_order())  # fails with the cycle, if there is one

    def test_the_page_has_an_order(self):
        """Nothing of the page goes round, neither files (nor by a type alone) nor folders."""
        files, folders = collections.defaultdict(set), collections.defaultdict(set)
        source = ROOT / "dashboards/web/src"
        for path in source.rglob("*.ts"):
            for name in re.findall(r' from "(\.[^"]+)";', path.read_text()):
                imported = (path.parent / name).resolve().with_suffix(".ts")
                if not imported.is_file() or source not in imported.parents:
                    continue  # generated, or a style
                files[path].add(imported)
                # All panels are mounted by one file: it stands above its folder.
                user = path if path.name == "main.ts" else path.parent
                folders[user] |= {imported.parent} - {user}
        self.assertGreater(len(files), 50)
        list(graphlib.TopologicalSorter(files).static_order())
        list(graphlib.TopologicalSorter(folders).static_order())

    def test_costly_headers_are_in_few_files(self):
        """spdlog takes 9 s to compile with sanitizers wherever a line is logged, CLI11 up to 30 s."""
        wrong = [str(path) for path in tracked() if path.parts[0] == "daemon" and path.suffix in (".cc", ".h")
                 and re.search(r'#include .(spdlog/|CLI/)', (ROOT / path).read_text()) and str(path) not in COSTLY]
        self.assertEqual([], wrong)

    def test_every_mutex_says_what_it_guards(self):
        """clang checks what is said (make lint): nothing is known of the standard library's mutexes."""
        wrong, seen = [], 0
        for path in tracked():
            if path.parts[0] != "daemon" or path.suffix not in (".cc", ".h") or path.name == "mutex.h":
                continue
            text = (ROOT / path).read_text()
            wrong += [f"{path}: {name}" for name in re.findall(r"std::\w*mutex\b|std::condition_variable\w*|absl::Mutex\b", text)]
            for name in re.findall(r"^ *(?:mutable |static )*(?:Shared|Timed)?Mutex (\w+);", text, re.M):
                seen += 1
                if f"GUARDED_BY({name})" not in text and f"{path.name} {name}" not in TURNS:
                    wrong.append(f"{path}: {name} guards nothing")
        self.assertGreater(seen, 40)
        self.assertEqual([], wrong)

    def test_every_source_names_its_licence(self):
        sources = [path for path in tracked() if path.suffix not in DATA and path.name not in {"LICENSE", "copyright"}]
        self.assertGreater(len(sources), 500)
        without = [str(path) for path in sources
                   if not LICENSED.search("\n".join((ROOT / path).read_text().splitlines()[:2]))]
        self.assertEqual([], without)



if __name__ == "__main__":
    unittest.main()
