# SPDX-License-Identifier: Apache-2.0
"""The layout follows the flow of data: rules for includes between folders, and the licence of each file."""

import collections
import graphlib
import itertools
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The stages in the order of the data: a file includes only files of its own line or of a line above.
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
          "daemon/ctl/values_set.cc", "daemon/ctl/values_call.cc", "daemon/ctl/commands.cc", "daemon/ctl/leaks.cc",
          "daemon/ctl/live_why.cc", "daemon/ctl/question_commands.cc", "daemon/ctl/run_options.cc", "daemon/ctl/snapshot/query_command.cc",
          "daemon/ctl/snapshot/snapshot_commands.cc", "daemon/ctl/snapshot_take.cc", "daemon/ctl/stream_commands.cc",
          "daemon/ctl/trace_calls.cc", "daemon/ctl/value_history.cc", "daemon/ctl/values.cc", "daemon/ctl/watch.cc"}
# Code whose data belongs to more than one thread.
SHARED = r"\bMutex\b|std::(j?thread|async|atomic)\b|\bCopyOnWrite\b|\bSpareThread\b"
# Mutexes that guard no data but let only one thread at a time do something.
TURNS = {"web_config.h hashing_", "published_request.cc mutex"}
# The form of the licence's line; BPF programs are under the kernel's licence too.
LICENSED = re.compile(r"SPDX-License-Identifier: (Apache-2\.0|\(GPL-2\.0-only OR BSD-2-Clause\))( \*/| \*\))?$", re.M)
# Files that cannot have a comment, and text for people.
DATA = {".json", ".md", ".txt", ".ctf", ".png", ".svg", ".html"}


def tracked():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePosixPath(name) for name in names.splitlines() if (ROOT / name).is_file()]


def rank_of(path):
    """The stage of a file in daemon/; files directly in daemon/ come last, because they connect all stages."""
    folder = str(path.parent.relative_to("daemon"))
    ranks = {name: rank for rank, line in enumerate(STAGES.split("\n")) for name in line.split()}
    return len(ranks) + 1 if folder == "." else ranks[folder]


class Layout(unittest.TestCase):
    def test_thread_sanitizer_watches_what_has_threads(self):
        """The short form of its build: each folder that it compiles has something that threads share."""
        makefile = (ROOT / "daemon/daemon.mk").read_text()
        folders = re.search(r"^  WATCHED := ((?:.*\\\n)*.*)$", makefile, re.M)[1].replace("\\", "").split()
        self.assertTrue(folders)
        for folder in folders:
            texts = [path.read_text() for path in (ROOT / "daemon" / folder).iterdir() if path.suffix in (".cc", ".h")]
            self.assertRegex("".join(texts), SHARED, folder)

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
        """The stages of a folder are adjacent, so that no two folders of daemon/ include each other."""
        rooms = [name.split("/")[0] for line in STAGES.split("\n") for name in line.split()]
        together = [room for room, _ in itertools.groupby(rooms)]
        self.assertGreater(len(together), 20)
        self.assertEqual(sorted(set(together)), sorted(together))

    def test_the_agent_has_an_order(self):
        """Headers and sources of the agent (a .c and its .h count as one) include each other without cycles."""
        uses = collections.defaultdict(set)
        for path in [path for folder in ("agent-lib", "agent-lib/native_heap", "agent-lib/values", "agent-lib/walk")
                     for path in (ROOT / folder).glob("*.[ch]")]:
            included = re.findall(r'^#include "(?:\.\./|walk/|native_heap/|values/)?(\w+)\.h"', path.read_text(), re.M)
            uses[path.stem] |= set(included) - {path.stem}
        self.assertGreater(len(uses), 10)
        list(graphlib.TopologicalSorter(uses).static_order())  # raises CycleError if there is a cycle

    def test_the_page_has_an_order(self):
        """Neither files nor folders of the page import each other in a cycle, not even for types only."""
        files, folders = collections.defaultdict(set), collections.defaultdict(set)
        source = ROOT / "dashboards/web/src"
        for path in source.rglob("*.ts"):
            for name in re.findall(r' from "(\.[^"]+)";', path.read_text()):
                imported = (path.parent / name).resolve().with_suffix(".ts")
                if not imported.is_file() or source not in imported.parents:
                    continue  # generated, or a style
                files[path].add(imported)
                # One file mounts all panels, so it counts as above its folder.
                user = path if path.name == "main.ts" else path.parent
                folders[user] |= {imported.parent} - {user}
        self.assertGreater(len(files), 50)
        list(graphlib.TopologicalSorter(files).static_order())
        list(graphlib.TopologicalSorter(folders).static_order())

    def test_costly_headers_are_in_few_files(self):
        """With sanitizers, spdlog adds 9 s to the compilation of a file that logs, and CLI11 up to 30 s."""
        wrong = [str(path) for path in tracked() if path.parts[0] == "daemon" and path.suffix in (".cc", ".h")
                 and re.search(r'#include .(spdlog/|CLI/)', (ROOT / path).read_text()) and str(path) not in COSTLY]
        self.assertEqual([], wrong)

    def test_every_mutex_says_what_it_guards(self):
        """make lint checks these annotations; the standard library's mutexes have none, so they are not allowed."""
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
