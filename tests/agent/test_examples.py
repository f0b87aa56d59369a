# SPDX-License-Identifier: Apache-2.0
"""Programs of agent-lib/examples publish correct values."""

import json

import harness
from harness import TARGETS, TARGETS5, E2ETest

LAST = 3000


def next_of(n):
    return n // 2 if n % 2 == 0 else 3 * n + 1


def way_of(n):
    """All numbers from n to 1 in the Collatz sequence."""
    way = [n]
    while way[-1] != 1:
        way.append(next_of(way[-1]))
    return way


def records():
    """Start numbers of sequences that are longer than all previous ones."""
    longest, found = 1, []
    for n in range(1, LAST + 1):
        if len(way_of(n)) > longest:
            longest = len(way_of(n))
            found.append(n)
    return found


class Ways(E2ETest):
    """A program written for Ocamlviz: each of its observations shows the program's numbers."""

    def answer(self, daemon, pid, *arguments):
        answer = json.loads(daemon.ctl("values", "--pid", pid, "-o", "json", *arguments).stdout)
        return {one["name"]: one for one in answer["reported"]}, answer

    def check_version(self, folder):
        target = self.target("ways", str(LAST), "3600000", folder=folder)
        daemon = self.daemon("--pid", target.pid, "--mode", "observe")
        harness.eventually(lambda: self.answer(daemon, target.pid)[1]["waiting"] == 1, "it waits for a viewer")
        daemon.ctl("resume", "--pid", target.pid)
        last = records()[-10:]
        told = [f"{n}: {len(way_of(n)) - 1} steps" for n in reversed(last)]
        self.assertEqual(told, [target.read_line() for _ in last])
        known = {n for first in range(2, LAST + 1) for n in way_of(first)} - {1}
        found, answer = self.answer(daemon, target.pid)
        self.assertEqual((str(len(known)), "steps"), (found["steps"]["hits"], found["steps"]["unit"]))
        self.assertEqual((str(LAST), str(LAST)), (found["search"]["starts"], found["search"]["stops"]))
        self.assertGreater(found["search"]["seconds"], found["search"]["max_seconds"])
        table = found["known"]["value"]
        self.assertEqual(("VALUE_KIND_TABLE", str(len(known))), (table["kind"], table["size"]))
        self.assertEqual(int(table["buckets"]), sum(map(int, table["chains"])))
        self.assertEqual(str(LAST), found["number"]["value"]["integer"])
        tag = found["records"]["value"]
        self.assertEqual(("10", False), (tag["size"], tag["bytes_is_least"]), "the others have died")
        lines = [line["text"] for line in answer["lines"]]
        self.assertEqual(["before the search", *(f"{len(way_of(n)) - 1} steps from {n}" for n in records())], lines)
        self.check_share(daemon, target, LAST / len(known))
        self.check_ways(daemon, target, last)

    def check_share(self, daemon, target, share):
        """A published function is called when the program checks for viewers."""
        def evaluated():
            target.command("ask")
            return self.answer(daemon, target.pid)[0]["share"]["value"]["number"] == share
        harness.eventually(evaluated, "the function is called")

    def check_ways(self, daemon, target, last):
        """Each number occurs once although sequences meet, and 1 points back."""
        _, answer = self.answer(daemon, target.pid, "--graph", "ways")
        value = answer["reported"][0]["value"]
        places = [field["value"]["integer"] for node in value["graph"] for field in node["fields"][:1]
                  if "value" in field and field["value"]["kind"] == "VALUE_KIND_INTEGER"]
        numbers = {str(n) for first in last for n in way_of(first)} | {"1", "2", "4"}
        self.assertEqual((sorted(numbers), False), (sorted(places), value["graph_is_cut"]))
        shared = [node for node in value["graph"] if node["references"] > 1]
        self.assertGreater(len(shared), 1)

    def test_ocaml4(self):
        self.check_version(TARGETS)

    def test_ocaml5(self):
        self.check_version(TARGETS5)
