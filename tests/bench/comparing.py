# SPDX-License-Identifier: Apache-2.0
"""Runs one workload under several peers, the first of which is bare, and adds the others' costs relative to bare."""

import collections

import peers
from bench_context import rate_text, say
from rounds import interleaved
from spread import ratios


def possible(section, workload, cases):
    """The cases that can run; a note names the reason for each other one."""
    for reason in dict.fromkeys(f"{case.name}: {case.missing(workload)}" for case in cases if case.missing(workload)):
        section.notes.append(f"{workload.name} without {reason}")
    return [case for case in cases if not case.missing(workload)]


def runs_of(context, section, workload, cases):
    """Runs the possible cases interleaved: {case: [(Work, what the peer saw) of each round]}."""
    cases = possible(section, workload, cases)
    rounds = interleaved(cases, context.pairs,
                         lambda case: peers.run(workload, case, context.files, context.scale))
    runs = {case: [done[case] for done in rounds] for case in cases}
    note_losses(section, workload, runs)
    say(f"  {workload.name}: {context.pairs} rounds of {len(cases)} runs")
    return runs


def note_losses(section, workload, runs):
    for case, of_case in runs.items():
        lost = collections.Counter()
        for _, seen in of_case:
            lost.update(seen.get("lost", {}))
        if lost:
            reasons = ", ".join(f"{reason} {count:,.0f}" for reason, count in lost.items())
            at = " at ".join(filter(None, [case.name, rate_text(case.rate)]))
            section.notes.append(f"{workload.name}, {at}: lost {reasons}")


def place(workload, case):
    """Row and column of a measure."""
    return f"{workload.name}, {case.name}", rate_text(case.rate)


def add_over_bare(section, what, workload, runs, value, goals=None):
    """Adds value(work) of each case relative to bare; goals: by (class of the peer, rate)."""
    (bare, without), *others = runs.items()
    for case, of_case in others:
        values = ratios([value(work) for work, _ in of_case], [value(work) for work, _ in without])
        section.add(what, "", values, *place(workload, case), at_most=(goals or {}).get((type(case), case.rate)))


def add_seen(section, what, unit, workload, runs, value, goals=None):
    """Adds value(work, seen) of each run; None is left out."""
    for case, of_case in runs.items():
        values = [value(work, seen) for work, seen in of_case]
        section.add(what, unit, [v for v in values if v is not None], *place(workload, case),
                    at_most=(goals or {}).get(type(case)))
