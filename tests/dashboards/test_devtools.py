# SPDX-License-Identifier: Apache-2.0
"""The DevTools of a real Chromium load a heap dump that memprofctl has converted, and find in it what memprofctl
reports: every block, and the size that every root retains by the DevTools' own dominators."""

import json
import subprocess
import unittest

import harness
from browser import DEVTOOLS, WholeChromium
from harness import TARGETS4, TARGETS5, E2ETest, Process, eventually

CTL = harness.BUILD / "memprofctl"
# Blocks that tests/targets/heap_shapes.ml keeps in its major heap.
KEPT = {"block(3, tag 33)": 1_000, "block(40, tag 34)": 500, "block(100, tag 35)": 300, "block(300, tag 36)": 50,
        "block(100000, tag 37)": 3}

# Loads the file like the worker of the Memory panel. Paths are those of the nodes above the blocks.
LOAD = f"""(async () => {{
    const worker = await import("{DEVTOOLS}entrypoints/heap_snapshot_worker/heap_snapshot_worker.js");
    const failures = [];
    const dispatcher = {{sendEvent: (name, data) => {{ if (/Broken/.test(name)) failures.push(data); }}}};
    const loader = new worker.HeapSnapshotLoader.HeapSnapshotLoader(dispatcher);
    const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {{
        const {{done, value}} = await reader.read();
        if (done) break;
        loader.write(value);
    }}
    loader.close();
    const {{port1, port2}} = new MessageChannel();
    new worker.HeapSnapshot.SecondaryInitManager(port2);
    const snapshot = await loader.buildSnapshot(port1);
    const classes = {{}}, roots = {{}};
    let blocks = 0, bytes = 0, unreached = 0;
    const at_root = (node, path) => {{
        roots[path] = node.retainedSize();
        for (const edges = node.edges(); edges.hasNext(); edges.next()) {{
            const below = edges.item().node();
            if (below.isSynthetic())
                at_root(snapshot.createNode(below.nodeIndex), path ? path + " / " + below.name() : below.name());
        }}
    }};
    at_root(snapshot.rootNode(), "");
    for (const nodes = snapshot.allNodes(); nodes.hasNext(); nodes.next()) {{
        const node = nodes.item();
        if (node.isSynthetic()) continue;
        ++blocks;
        bytes += node.selfSize();
        classes[node.name()] = (classes[node.name()] || 0) + 1;
        if (node.distance() < 0 || node.distance() > 1e6) ++unreached;
    }}
    return {{failures, classes, roots, blocks, bytes, unreached, total: snapshot.totalSize}};
}})()"""


class DevTools(E2ETest):
    def told(self, question, path, *options):
        return json.loads(subprocess.run([CTL, "snapshot", question, path, *options, "-o", "json"], check=True,
                                         capture_output=True, timeout=harness.TIMEOUT).stdout)

    def taken(self):
        target = self.target("heap_shapes", folder=TARGETS4)
        daemon = self.daemon("--pid", target.pid, rate=1e-3)

        def sampling():
            target.command(f"step {self.folder / 'own'}")
            return daemon.state(target.pid) == "sampling"
        eventually(sampling, "it is sampled")
        path = self.folder / "a.heap"
        taker = self.process(Process([CTL, "--grpc.socket", daemon.socket, "snapshot", "take", "--out", path,
                                      "--max-pause", "10s"]))
        while taker.running():  # memprofd copies an idle program only once it allocates
            target.command(f"step {self.folder / 'own'}")
        self.assertEqual(0, taker.wait(), taker.stderr())
        return path

    def loaded(self, path):
        with WholeChromium() as browser:
            browser.open_devtools()
            browser.give_file("file", path)
            return browser.evaluate(LOAD)

    def test_they_have_every_block_and_what_retains_it(self):
        heap, converted = self.taken(), self.folder / "a.heapsnapshot"
        done = subprocess.run([CTL, "snapshot", "convert", heap, "--out", converted], check=True, capture_output=True,
                              text=True)
        self.assert_one_line(done.stdout, str(converted), "blocks")
        self.assertEqual(0o600, converted.stat().st_mode & 0o777)
        found = self.loaded(converted)
        self.assertEqual(([], 0), (found["failures"], found["unreached"]))
        reachable = self.told("show", heap)["heap"]["reachable"]
        self.assertEqual(reachable, {"blocks": found["blocks"], "bytes": found["bytes"]})
        self.assertEqual(KEPT, {name: found["classes"].get(name) for name in KEPT})
        self.check_retained(self.told("retained", heap, "-n", "0"), found["roots"])

    def check_retained(self, told, found):
        retained = {}

        def gather(rows, above):
            for row in rows:
                name = f"{above} / {row['name']}" if above else row["name"]
                retained[name] = row["bytes"]
                gather(row.get("children", ()), name)
        gather(told["roots"], "")
        self.assertGreater(len(found), 50)
        self.assertEqual(told["reachable"]["bytes"], found.pop(""))
        # Roots that retain nothing on their own have no row.
        self.assertEqual({name: retained.get(name, 0) for name in found}, found)


if __name__ == "__main__":
    unittest.main()
