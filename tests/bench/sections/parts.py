# SPDX-License-Identifier: Apache-2.0
"""Target CPU of a sample at 1e-3, by part, in ns."""

import agent_process
import peers
import probe_hits
from bench_context import say
from rounds import interleaved
from watching import LARGE_RING
from workloads import BUNDLED, CHURN, DEEP, LIVE_HEAP, timed

RATE = 1e-3
BARE, AGENT, FULL = "bare", "agent without probes", "memprofd"


def run(context, section):
    with probe_hits.counted(), context.daemon(*LARGE_RING) as daemon:
        for workload in context.chosen([CHURN, DEEP, LIVE_HEAP]):
            rounds = interleaved([BARE, AGENT, FULL], context.pairs,
                                 lambda case, workload=workload: one(case, workload, daemon, context))
            found = [parts_of(done) for done in rounds]
            for part in {part: None for of_round in found for part in of_round}:
                section.add("CPU of a sample", "ns", [of_round.get(part, 0) for of_round in found], part, workload.name)
            say(f"  {workload.name}: {len(rounds)} rounds of 3 runs")


def one(case, workload, daemon, context):
    """Runs one case: (CPU seconds, samples, {BPF program: (runs, ns)})."""
    if case == AGENT:
        return agent_alone(workload, context.scale)
    peer = peers.Bare() if case == BARE else peers.Probed(daemon, RATE)
    work, seen = peers.run(workload, peer, context.files, context.scale)
    return work.cpu, seen.get("samples", 0), seen.get("programs", {})


def agent_alone(workload, scale):
    """Runs a workload with a sampling agent, but without probes."""
    process = agent_process.AgentProcess(BUNDLED / workload.name, str(int(workload.amount * scale)))
    process.request(RATE, 1)
    process.watch(True)
    cpu, _, _ = timed(process.pid, lambda: process.ask("go"))
    samples = process.head()["last_sample_id"]
    process.close()
    return cpu, samples, {}


def parts_of(done):
    """{part: ns per sample} of one round."""
    bare, (agent, agent_samples, _), (full, samples, programs) = done[BARE][0], done[AGENT], done[FULL]
    total = (full - bare) / samples * 1e9
    parts = {"engine and agent": (agent - bare) / agent_samples * 1e9}
    parts.update({f"program {name}": ns / samples for name, (_, ns) in sorted(programs.items())})
    return {**parts, "probe traps and rest": total - sum(parts.values()), "total": total}
