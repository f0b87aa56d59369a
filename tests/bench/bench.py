"""make bench: what memprofd costs, measured on this machine.

Sections: attach (seconds, and time the target was stopped), large (attach to a program of
Coq's size), idle (memory and CPU of memprofd for each of 50 idle targets), overhead (target
CPU, profiled over bare, interleaved pairs), parts (ns per sample by part), ingest
(daemon CPU per event, drops, bytes per live sample, with and without a reader of
events), trace (bytes per sample of a recording), recording (target and daemon
CPU, recorded over not recorded, interleaved pairs), history (memory of a day, and
time of the questions about it).
Prints a table and writes BUILD/bench.json. Options: --pairs N, --only SECTION.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "agent")]
import agent_process  # noqa: E402
import daemon_cost  # noqa: E402
import harness  # noqa: E402

RATES = [1e-6, 1e-5, 1e-4, 1e-3]
# Programs and their amount of work (words, or replacements), about two seconds each.
WORKLOADS = {"churn": 300_000_000, "deep": 350_000_000, "live_heap": 700_000}
RECORDED_RATE = 1e-3
BUSIEST = "churn"  # has the most samples a second

# Goals, shown beside what was measured.
MAX_TRACE_BYTES_PER_SAMPLE = 20
MAX_RECORDING_CORE_PERCENT = 25


def spread(values):
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "min": ordered[0], "max": ordered[-1],
            "p25": ordered[len(ordered) // 4], "p75": ordered[3 * len(ordered) // 4],
            "n": len(ordered)}


def shown(values, unit="", digits=3):
    s = spread(values)
    return (f"{s['median']:.{digits}f}{unit}  [{s['p25']:.{digits}f} .. {s['p75']:.{digits}f}]"
            f"  n={s['n']}")


def cpu_seconds(answer):
    """From the answer "done SECONDS CHECKSUM ..." of a workload."""
    return float(answer.split()[1])


class Bench:
    def __init__(self, pairs):
        self.pairs = pairs
        self.folder = tempfile.mkdtemp(prefix="memprofd-bench-")
        self.result = {"machine": {"kernel": platform.release(), "cpus": os.cpu_count(),
                                   "model": self.cpu_model()}}
        self.words = dict(WORKLOADS)

    @staticmethod
    def cpu_model():
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
        return "unknown"

    def daemon(self, *arguments):
        daemon = harness.Daemon(self.folder, *arguments)
        daemon.wait_ready()
        return daemon

    def run_target(self, workload, daemon=None, rate=None):
        """One run: (CPU seconds of the work, samples taken, target's snapshot)."""
        target = harness.Target(workload, str(self.words[workload]))
        snapshot = None
        try:
            if rate is not None:
                daemon.attach(target.pid, rate)
            cpu = cpu_seconds(target.command("go"))
            if rate is not None:
                snapshot = daemon.metrics()
                daemon.detach(target.pid)
            target.exit()
        finally:
            target.kill()
        return cpu, snapshot

    # ------------------------------------------------------------ sections

    def overhead(self):
        """Target CPU, profiled / bare, in pairs run one after the other."""
        daemon = self.daemon()
        out = {}
        for workload in WORKLOADS:
            for rate in RATES:
                ratios = []
                for _ in range(self.pairs):
                    bare, _ = self.run_target(workload)
                    profiled, _ = self.run_target(workload, daemon, rate)
                    ratios.append(profiled / bare)
                out[f"{workload} {rate:g}"] = spread(ratios)
                print(f"  {workload:10} {rate:7g}   {shown(ratios)}", flush=True)
        daemon.stop()
        self.result["overhead_cpu_ratio"] = out

    def agent_only(self, workload, rate):
        """The runtime's engine and the agent, without any probe: CPU seconds, samples."""
        target = agent_process.AgentProcess(workload, str(self.words[workload]))
        target.request(rate, 1)
        target.watch(True)
        cpu = cpu_seconds(target.ask("go"))
        samples = target.head()["last_sample_id"]
        target.close()
        return cpu, samples

    @staticmethod
    def bpf_run_ns():
        """Program name to (run time in ns, runs), while the kernel counts them."""
        out = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True)
        times = {}
        for prog in json.loads(out.stdout):
            if prog.get("name") in ("capture", "batch"):
                times[prog["name"]] = (prog.get("run_time_ns", 0), prog.get("run_cnt", 0))
        return times

    def full_with_bpf_times(self, workload, daemon, rate):
        target = harness.Target(workload, str(self.words[workload]))
        try:
            daemon.attach(target.pid, rate)
            cpu = cpu_seconds(target.command("go"))
            times = self.bpf_run_ns()
            samples = daemon.metrics().value("memprofd_samples_total", pid=target.pid,
                                             event="alloc")
            daemon.detach(target.pid)
            target.exit()
        finally:
            target.kill()
        return cpu, samples, times

    def parts(self):
        """ns per sample: engine and agent, trap and rest, BPF programs."""
        rate = 1e-3
        stats = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
        before = stats.read_text()
        stats.write_text("1")
        daemon = self.daemon("--ring-bytes", "64MiB")
        out = {}
        try:
            for workload in WORKLOADS:
                rows = {"engine and agent": [], "capture program": [], "batch program": [],
                        "probe traps and rest": [], "total": []}
                for _ in range(self.pairs):
                    bare, _ = self.run_target(workload)
                    agent, agent_samples = self.agent_only(workload, rate)
                    full, samples, times = self.full_with_bpf_times(workload, daemon, rate)
                    engine = (agent - bare) / agent_samples * 1e9
                    total = (full - bare) / samples * 1e9
                    capture = times["capture"][0] / samples
                    batch = times["batch"][0] / samples
                    for name, value in (("engine and agent", engine), ("capture program", capture),
                                        ("batch program", batch), ("total", total),
                                        ("probe traps and rest",
                                         total - engine - capture - batch)):
                        rows[name].append(value)
                for name, values in rows.items():
                    print(f"  {workload:10} {name:22} {shown(values, ' ns', 0)}", flush=True)
                out[workload] = {name: spread(values) for name, values in rows.items()}
        finally:
            stats.write_text(before)
            daemon.stop()
        self.result["ns_per_sample_at_1e-3"] = out

    def ingest(self):
        """Daemon CPU per event with real events, and the decoder's own limit."""
        daemon = self.daemon("--ring-bytes", "64MiB")
        per_event, rates, drops = [], [], 0
        for _ in range(self.pairs):
            target = harness.Target("churn", str(self.words["churn"]))
            daemon.attach(target.pid, 1e-2)
            before = daemon.metrics()
            cpu = cpu_seconds(target.command("go"))
            after = daemon.metrics()

            def grown(name, **labels):
                return after.total(name, **labels) - before.total(name, **labels)

            # A capture and an alloc, maybe a promote, a dealloc record.
            events = grown("memprofd_samples_total", pid=target.pid) + grown(
                "memprofd_samples_total", pid=target.pid, event="alloc")
            per_event.append(grown("memprofd_cpu_seconds_total") / events * 1e9)
            rates.append(events / cpu)
            drops += grown("memprofd_dropped_events_total")
            daemon.detach(target.pid)
            target.exit()
        daemon.stop()
        print(f"  daemon CPU per event   {shown(per_event, ' ns', 0)}")
        print(f"  events per second      {shown(rates, '', 0)}, {drops:.0f} dropped")
        self.result["ingest"] = {"daemon_ns_per_event": spread(per_event),
                                 "events_per_second": spread(rates), "dropped": drops}
        self.ingest_limit()

    def ingest_limit(self):
        program = harness.BUILD / "tests" / "ingest_bench"
        out = subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True,
                             check=True)
        rows = {}
        for row in json.loads(out.stdout)["benchmarks"]:
            numbers = {key: value for key, value in row.items()
                       if isinstance(value, (int, float))
                       and any(word in key for word in ("second", "byte", "cpu_per"))}
            rows[row["name"]] = numbers
            print("  " + row["name"] + "   " +
                  ", ".join(f"{key} {value * 1e9:,.0f} ns" if key.startswith("cpu_per")
                            else f"{key} {value:,.0f}" for key, value in numbers.items()))
        self.result["ingest_limit"] = rows

    def recorded_run(self, workload, daemon, record):
        """One run at RECORDED_RATE: what it cost the target and the daemon, and what was written."""
        target = harness.Target(workload, str(self.words[workload]))
        file = pathlib.Path(self.folder) / f"{workload}.ctf"
        file.unlink(missing_ok=True)
        recorder = None
        try:
            daemon.attach(target.pid, RECORDED_RATE)
            if record:
                recorder = harness.Process([harness.BUILD / "memprofctl", "--grpc.socket",
                                            daemon.socket, "record", "--pid", target.pid, "-o", file])
                harness.eventually(lambda: file.exists() and file.stat().st_size > 0,
                                   "the recording begins")
            before, began = daemon.metrics(), time.monotonic()
            cpu = cpu_seconds(target.command("go"))
            after, ended = daemon.metrics(), time.monotonic()
            if record:
                recorder.stop(signal.SIGINT)
            daemon.detach(target.pid)
            target.exit()
        finally:
            target.kill()
            if recorder is not None:
                recorder.kill()

        def grown(name, **labels):
            return after.total(name, **labels) - before.total(name, **labels)

        samples = grown("memprofd_samples_total", pid=target.pid, event="alloc")
        run = {"target_cpu": cpu, "samples": samples, "samples_per_second": samples / (ended - began),
               "events": grown("memprofd_samples_total", pid=target.pid),
               "core_percent": 100 * grown("memprofd_cpu_seconds_total") / (ended - began),
               "dropped": grown("memprofd_dropped_events_total")}
        if record:
            said = "".join(recorder.output)
            lost = re.search(r"([\d,.]+\S*) lost because", said)
            run["not_written"] = 0 if lost is None else lost.group(1)
            run["trace_bytes"] = file.stat().st_size
            run["bytes_per_sample"] = file.stat().st_size / samples
        return run

    def trace(self):
        """Recordings at 1e-3: bytes per sample, all events of the samples included."""
        daemon = self.daemon("--ring-bytes", "64MiB")
        out = {}
        for workload in WORKLOADS:
            runs = [self.recorded_run(workload, daemon, True) for _ in range(self.pairs)]
            rows = {key: [run[key] for run in runs]
                    for key in ("bytes_per_sample", "samples", "events", "samples_per_second",
                                "core_percent")}
            lost = {key: sum(float(run[key]) for run in runs) for key in ("dropped", "not_written")}
            out[workload] = {**{key: spread(values) for key, values in rows.items()}, **lost}
            print(f"  {workload:10} bytes per sample    {shown(rows['bytes_per_sample'], '', 2)}"
                  f"   goal {MAX_TRACE_BYTES_PER_SAMPLE}")
            print(f"  {'':10} {rows['samples'][0]:.0f} samples, {rows['events'][0]:.0f} events, "
                  f"{statistics.median(rows['samples_per_second']):.0f} samples/s; "
                  f"{lost['dropped']:.0f} dropped, {lost['not_written']:.0f} not written", flush=True)
        daemon.stop()
        self.result["trace_at_1e-3"] = out

    def recording(self):
        """The busiest workload at 1e-3, recorded / not recorded, in pairs one after the other."""
        daemon = self.daemon("--ring-bytes", "64MiB")
        ratios, bare_percent, percent, dropped = [], [], [], 0
        for i in range(self.pairs):
            pair = {}
            for record in (i % 2 == 0, i % 2 != 0):  # either one first
                pair[record] = self.recorded_run(BUSIEST, daemon, record)
            ratios.append(pair[True]["target_cpu"] / pair[False]["target_cpu"])
            percent.append(pair[True]["core_percent"])
            bare_percent.append(pair[False]["core_percent"])
            dropped += pair[True]["dropped"] + float(pair[True]["not_written"])
        daemon.stop()
        print(f"  target CPU, recorded / not   {shown(ratios)}")
        print(f"  daemon, recorded             {shown(percent, ' % of a core', 1)}"
              f"   goal {MAX_RECORDING_CORE_PERCENT}")
        print(f"  daemon, not recorded         {shown(bare_percent, ' % of a core', 1)}")
        print(f"  events dropped               {dropped:.0f}")
        self.result["recording_at_1e-3"] = {
            "workload": BUSIEST, "target_cpu_ratio": spread(ratios), "core_percent": spread(percent),
            "core_percent_not_recorded": spread(bare_percent), "dropped": dropped}

    def history(self):
        """A day of 10,000 sites: memory, and CPU time of the questions about it."""
        program = harness.BUILD / "tests" / "history_bench"
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
        result = json.loads(done.stdout)
        for case in ("zipf", "equal"):
            numbers = result[case]
            print(f"  {case}: history {numbers['history_bytes'] / 2**20:.1f} MiB, of which "
                  f"{result['max_bytes'] / 2**20:.0f} MiB hold {numbers['hours_within_limit']:.1f} h")
            for name, times in numbers["queries"].items():
                print(f"    {name:50} {times['median_ms']:7.1f} ms  "
                      f"[{times['min_ms']:.1f} .. {times['max_ms']:.1f}]")
        if result["missed"]:
            print("  goals missed: " + ", ".join(result["missed"]))
        self.result["history"] = result

    def attach(self):
        """Attach time, and how long the target stood still."""
        daemon = self.daemon()
        seconds, stopped = [], []
        for _ in range(max(self.pairs, 20)):
            target = harness.Target("busy_threads")
            daemon.attach(target.pid, 1e-5)
            metrics = daemon.metrics()
            seconds.append(metrics.value("memprofd_attach_seconds", pid=target.pid) * 1e3)
            stopped.append(
                metrics.value("memprofd_target_paused_seconds_total", pid=target.pid) * 1e3)
            daemon.detach(target.pid)
            target.exit()
        daemon.stop()
        print(f"  attach                 {shown(seconds, ' ms', 1)}")
        print(f"  target stopped         {shown(stopped, ' ms', 2)}  max {max(stopped):.2f} ms")
        self.result["attach_ms"] = spread(seconds)
        self.result["target_stopped_ms"] = spread(stopped)


    def large(self):
        """Daemon CPU of an attach to coqc with many plugins, and what its frames take in the kernel."""
        daemon = self.daemon()
        folder = pathlib.Path(self.folder) / "coq"
        program, (descriptors, plugins, table_bytes) = daemon_cost.largest_program(daemon, folder)
        attaches = daemon_cost.of_attaches(daemon, program.pid, max(self.pairs, 10), plugins)
        milliseconds = [1e3 * seconds for seconds in attaches]
        program.kill()
        daemon.stop()
        print(f"  daemon CPU             {shown(milliseconds, ' ms', 0)}"
              f"   goal {1e3 * daemon_cost.MAX_ATTACH_SECONDS:.0f}")
        print(f"  frame descriptors      {descriptors} in {table_bytes / 2**20:.1f} MiB"
              f"   goal {daemon_cost.MAX_TABLE_BYTES / 1e6:.0f} MB")
        self.result["attach_large_cpu_ms"] = spread(milliseconds)
        self.result["attach_large_descriptors"] = descriptors

    def idle(self):
        """Memory and CPU of memprofd for each of 50 idle targets, sampled at the default rate."""
        daemon = self.daemon()
        targets = [harness.Target("known_alloc") for _ in range(50)]
        cost = daemon_cost.of_idle_targets(daemon, targets, seconds=30)
        for target in targets:
            target.kill()
        daemon.stop()
        print(f"  memory                 {cost['bytes'] / 2**20:.2f} MiB, of which the kernel's "
              f"{cost['kernel_bytes'] / 2**20:.2f}   goal {daemon_cost.MAX_IDLE_BYTES / 2**20:.0f}")
        print(f"  CPU                    {cost['cpu_percent']:.3f} %   goal {daemon_cost.MAX_IDLE_CPU_PERCENT}")
        self.result["idle_target"] = cost


SECTIONS = ["attach", "large", "idle", "overhead", "parts", "ingest", "trace", "recording", "history"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", choices=SECTIONS, action="append")
    options = parser.parse_args()
    bench = Bench(options.pairs)
    for section in options.only or SECTIONS:
        method = getattr(bench, section)
        print(f"{section}: {method.__doc__}", flush=True)
        method()
    path = harness.BUILD / "bench.json"
    path.write_text(json.dumps(bench.result, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
