# SPDX-License-Identifier: Apache-2.0
"""Real servers at 20, 50 and 80 % of capacity, with requests at fixed times: CPU per request and latency over bare."""

import statistics

import in_turns
import probe_hits
from bench_context import rate_text, say
from in_turns import ALL
from rounds import interleaved
from served import PROGRAMS
from spread import said_limits, smallest_told
from watching import Growth

PAIRS = 20
SECONDS = 0.5  # duration of each load in each turn
WARM = 0.1  # duration of the load that precedes them
LEAST_SECONDS = 0.1
COUNTED = 8  # the load for counting probe hits is longer by this factor
CAPACITY = 5  # number of measurements of the capacity
LOADS = (0.2, 0.5, 0.8)  # shares of the capacity
LATENCIES = (50, 99, 99.9)
BARE, LATER = "bare", "bare, followed later"  # the process that is never attached to; the other one before its attach
IDLE, USUAL, OFTEN = None, 1e-5, 1e-4  # the other process after a detach, and while sampled at these rates
GOALS = {IDLE: 1.01, USUAL: 1.01, OFTEN: 1.02}


class Pair:
    """Two processes of one program under the same load; memprofd attaches to one and detaches from it in turn."""

    def __init__(self, daemon, bare, followed, seconds):
        self.daemon, self.bare, self.followed, self.seconds = daemon, bare, followed, seconds
        self.rate = None  # current sampling rate of `followed`; None: detached
        self.seen = {case: [] for case in GOALS}  # (samples, CPU seconds of memprofd, seconds) of each turn
        self.capacity = []

    def measure_capacity(self):
        """Alternates between the processes, so that both are warm."""
        for _ in range(CAPACITY):
            self.capacity += [server.load.capacity(self.seconds) for server in (self.bare, self.followed)]
        for server in (self.bare, self.followed):
            server.rate = LOADS[1] * self.can_do()

    def can_do(self):
        return statistics.median(self.capacity)

    def turn_to(self, rate):
        if rate == self.rate:
            return
        pid = self.followed.pid
        with self.followed.busy():  # in OCaml 4 the end of a session also needs a minor collection
            if self.rate:
                self.daemon.detach(pid)
            if rate:
                self.daemon.attach(pid, rate)
        if rate:
            self.followed.busy_until(lambda: self.daemon.state(pid) == "sampling", f"pid {pid} is sampled")
        self.rate = rate

    def work(self, case):
        """Runs all loads, the lowest first: {load: Slice}."""
        server = self.bare if case == BARE else self.followed
        if case in GOALS:
            self.turn_to(case)
        server.offer(server.rate, WARM)
        growth = Growth(self.daemon)
        found = {load: server.offer(load * self.can_do(), self.seconds) for load in LOADS}
        if case in GOALS:
            growth = growth.now()
            self.seen[case].append((growth.samples(server.pid), growth.total("memprofd_cpu_seconds_total"),
                                    sum(one.seconds for one in found.values())))
        return found

    def programs(self, rate):
        """(seconds of the BPF programs, their runs, the server's CPU seconds), as the kernel counts them."""
        self.turn_to(rate)
        with probe_hits.counted():
            hits = probe_hits.Hits(self.daemon.pid)
            found = self.followed.offer(LOADS[1] * self.can_do(), COUNTED * self.seconds)
            ran = hits.now().values()
        return sum(ns for _, ns in ran) / 1e9, sum(runs for runs, _ in ran), found.cpu


def run(context, section):
    seconds = max(LEAST_SECONDS, SECONDS * context.scale)
    with context.daemon() as daemon:
        for program in context.chosen(PROGRAMS):
            if program.missing():
                section.notes.append(f"{program.what} is skipped: {program.missing()}")
                continue
            files = [context.files / f"{program.name}-{i}" for i in range(2)]
            for folder in files:
                folder.mkdir()
            with program.started(files[0]) as bare, program.started(files[1]) as followed:
                measure(section, program, Pair(daemon, bare, followed, seconds), context.at_least(PAIRS))


def measure(section, program, pair, count):
    pair.measure_capacity()
    before = in_turns.with_all_loads(interleaved([BARE, LATER], count, pair.work))
    pair.turn_to(USUAL)  # injects the agent, which stays
    after = in_turns.with_all_loads(interleaved([BARE, *GOALS], count, pair.work))
    programs = {rate: pair.programs(rate) for rate in (USUAL, OFTEN)}
    pair.turn_to(None)
    say(f"  {program.name}: {count} rounds, {pair.can_do():,.0f} requests a second at most")
    section.add("capacity", "requests/s", pair.capacity, program.what)
    for load in (*LOADS, ALL):
        add_ratios(section, program, load, "CPU per request", 1, (before, after), lambda one: one.cpu_us())
    for percentile in LATENCIES:
        for load in LOADS:
            size = in_turns.rounds_for(percentile, min(one[BARE][load].requests for one in before))
            add_ratios(section, program, load, f"p{percentile:g}", size, (before, after),
                       lambda one, percentile=percentile: one.latency_ms(percentile))
    add_absolute(section, program, after)
    add_seen(section, program, pair, after)
    for rate, (seconds, runs, cpu) in programs.items():
        place = program.what, column_of(rate)
        section.add("the programs at its probes, without what a trap takes", "% of its CPU", [100 * seconds / cpu], *place)
        section.add("a run of those", "us", [1e6 * seconds / runs] if runs else [], *place)
    section.details[program.name] = [details(one) for one in (*before, *after)]


def row_of(program, load):
    return f"{program.what}, {load if load == ALL else f'{load:.0%}'.replace('%', ' %')}"


def column_of(case):
    return f"memprofd {rate_text(case)}" if case else "idle agent"


def add_ratios(section, program, load, what, size, rounds, value):
    """Adds ratios to the untouched process and to the process after a detach, and the smallest detectable effects."""
    before, after = (in_turns.together(of, size) for of in rounds)
    was = in_turns.over(before, load, value, LATER, BARE)
    found = {f"{column_of(case)} / bare": (in_turns.corrected(in_turns.over(after, load, value, case, BARE), was), goal)
             for case, goal in GOALS.items()}
    found |= {f"{column_of(case)} / let go": (in_turns.over(after, load, value, case, IDLE), goal)
              for case, goal in GOALS.items() if case is not IDLE}
    for column, (values, goal) in found.items():
        section.add(f"{what}, ratio", "", values, row_of(program, load), column, goal)
        told = smallest_told(values)
        if load == ALL and (limits := said_limits(values)):
            section.notes.append(f"{row_of(program, load)}, {what}, {column}: {limits}")
        section.add(f"{what}, smallest effect that can be told", "%", [] if told is None else [told],
                    row_of(program, load), column)


def add_absolute(section, program, rounds):
    """Adds absolute numbers of the untouched process, and of the load on it."""
    for load in LOADS:
        slices = [one[BARE][load] for one in rounds]
        row = row_of(program, load)
        section.add("CPU per request, bare", "us", [one.cpu_us() for one in slices], row)
        for percentile in LATENCIES:
            size = in_turns.rounds_for(percentile, min(one.requests for one in slices))
            section.add("latency, bare", "ms", [one[BARE][load].latency_ms(percentile) for one in in_turns.together(rounds, size)],
                        row, f"p{percentile:g}")
        section.add("CPU of the load", "% of a core", [100 * one.load_cpu / one.seconds for one in slices], row)
        section.add("the load itself was late by at most", "ms", [one.late_ns / 1e6 for one in slices], row)


def add_seen(section, program, pair, rounds):
    for case, turns in pair.seen.items():
        requests = [one[case][ALL].requests for one in rounds]
        section.add("samples per 1,000 requests", "", [1000 * samples / count for (samples, _, _), count in zip(turns, requests, strict=True)],
                    program.what, column_of(case))
        section.add("CPU of memprofd meanwhile", "% of a core", [100 * cpu / seconds for _, cpu, seconds in turns], program.what,
                    column_of(case))
    every = [slices for one in rounds for slices in (loads[ALL] for loads in one.values())]
    failed = sum(one.failed for one in every)
    if failed:
        section.notes.append(f"{program.what}: {failed:,} of {sum(one.requests for one in every):,} requests failed")


def details(one):
    """CPU, requests and percentiles of each case and load of a round."""
    return {case if case in (BARE, LATER) else column_of(case): {str(load): [s.cpu, s.requests, *(s.latency_ms(p) for p in LATENCIES)] for load, s in loads.items()}
            for case, loads in one.items()}
