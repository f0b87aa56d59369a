#!/usr/bin/python3
"""Target CPU per sample by who captures: (profiled - bare) / samples, in interleaved pairs.

  tests/bench/capture_cost.py [PAIRS [RATE...]]

Also probe hits per sample, as records of the ring buffer, and what was dropped.
MEMPROFD_BUILD names the build folder.
"""

import pathlib
import statistics
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

CAPTURES = ("kernel", "runtime")
# Words at a rate of 1e-3 and above; more below, for there are fewer samples to tell by.
WORKLOADS = {"churn": 60_000_000, "deep": 60_000_000}
RATES = (1e-2, 1e-3, 1e-4)


def run(workload, words, daemon=None, rate=None):
    """One run: (CPU seconds of the work, samples, ring buffer records, drops)."""
    target = harness.Target(workload, str(words))
    try:
        if daemon is None:
            return (float(target.command("go", timeout=300).split()[1]), 0, 0, 0)
        daemon.attach(target.pid, rate)
        before = daemon.metrics().value("memprofd_events_total")
        cpu = float(target.command("go", timeout=300).split()[1])
        harness.settled(lambda: daemon.metrics().value("memprofd_events_total"), "the daemon's counts")
        after = daemon.metrics()
        daemon.detach(target.pid)
        return (cpu, after.value("memprofd_samples_total", pid=target.pid, event="alloc"),
                after.value("memprofd_events_total") - before,
                after.total("memprofd_dropped_events_total", pid=target.pid))
    finally:
        target.kill()


def measure(daemons, workload, rate, pairs):
    words = int(WORKLOADS[workload] * max(1, 1e-3 / rate) ** 0.5)
    cost, ratios, hits, drops = ({capture: [] for capture in CAPTURES} for _ in range(4))
    for _ in range(pairs):
        for capture, daemon in daemons.items():
            bare = run(workload, words)[0]
            cpu, samples, records, dropped = run(workload, words, daemon, rate)
            cost[capture].append((cpu - bare) / samples * 1e9)
            ratios[capture].append(cpu / bare)
            hits[capture].append(records / samples)
            drops[capture].append(dropped)
    for capture in CAPTURES:
        low, middle, high = statistics.quantiles(cost[capture], n=4)
        print(f"{workload:6} {rate:g} {capture:8} {middle:6.0f} ns a sample [{low:.0f} .. {high:.0f}], "
              f"CPU ratio {statistics.median(ratios[capture]):.3f}, "
              f"{statistics.median(hits[capture]):.4f} probe hits a sample, {sum(drops[capture]):.0f} dropped", flush=True)


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rates = [float(rate) for rate in sys.argv[2:]] or RATES
    with tempfile.TemporaryDirectory(prefix="memprofd-bench-") as folder:
        daemons = {capture: harness.Daemon(folder, "--capture", capture, "--ring-bytes", "64MiB")
                   for capture in CAPTURES}
        for daemon in daemons.values():
            daemon.wait_ready()
        for workload in WORKLOADS:
            for rate in rates:
                measure(daemons, workload, rate, pairs)
        for daemon in daemons.values():
            daemon.stop()


if __name__ == "__main__":
    main()
