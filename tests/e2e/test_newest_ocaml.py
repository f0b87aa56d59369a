# SPDX-License-Identifier: Apache-2.0
"""The most important tests of each capability with OCaml 5.5; make test-matrix runs all of them.
The release comes from Debian's experimental; a machine without it skips them."""

import os
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(os.environ.get("MEMPROFD_BUILD", "build")).resolve() / "targets-experimental"
os.environ["MEMPROFD_TARGETS"] = str(FOLDER)  # before the harness reads it
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / folder) for folder in ("kit", "e2e", "heaps", "calls")]

import test_faults  # noqa: E402

CASES = [
    "test_attach.KnownAllocations.test_allocated_promoted_and_live_bytes_are_true",
    "test_attach.KnownAllocations.test_program_without_debug_information",
    "test_attach.KnownAllocations.test_second_attach_after_detach",
    "test_attach.KnownAllocations.test_rate_change_while_attached",
    "test_accuracy.Accuracy.test_ocaml5",
    "test_accuracy.LargeBlocks.test_ocaml5",
    "test_lifetimes.OverRateChanges.test_ocaml5_follows_it_until_it_dies",
    "test_lifetimes.OverRateChanges.test_ocaml5_samples_what_is_allocated_while_the_rate_changes",
    "test_capture.Captures.test_same_sites_and_stacks_of_ocaml_5",
    "test_newest_ocaml.Kills.test_killed",
    "test_attach.Ways.test_preloaded_agent",
    "test_attach.Ways.test_linked_agent",
    "test_domains.Domains.test_estimates_are_what_all_domains_allocate",
    "test_domains.Domains.test_short_lived_domains_are_sampled",
    "test_domains.Domains.test_each_short_lived_domain_draws_its_own_samples",
    "test_domains.Domains.test_stacks_continue_through_fibers",
    "test_domains.Domains.test_cycles",
    "test_domains.Domains.test_a_program_that_samples_by_itself_is_left_alone",
    "test_domain_deaths.DomainDeaths.test_what_two_domains_keep_is_live",
    "test_domain_deaths.DomainDeaths.test_what_waiting_domains_have_let_go_of_is_dead",
    "test_program_stops.ProgramStops.test_ocaml5",
    "test_program_stops.ProgramStarts.test_memprofd_makes_room_for_it",
    "test_program_stops.Trackers5",
    "test_observe.Estimates.test_sites_and_total_5",
    "test_heap.HeapWalk.test_settled_in_ocaml5",
    "test_heap.HeapWalk.test_domains",
    "test_heap.Contents5",
    "test_heap_roots.Roots5",
    "test_waiting.Threads.test_domains",
    "test_waiting.Server5.test_the_agent_comes_while_it_waits",
    "test_snapshot_questions.Reading5.test_blocks_have_types_of_the_source",
    "test_values.Shapes.test_ocaml5",
    "test_values.Whole.test_domains",
    "test_calls.Counts.test_ocaml5",
    "test_calls.Times.test_ocaml5",
    "test_calls.Times.test_fibers",
    "test_c_memory.CMemoryOfOcaml5.test_a_leak_is_charged_to_its_line",
    "test_c_probes.ByProbesOfOcaml5.test_a_leak_is_charged_to_its_line",
    "test_c_probes.ByProbesOfOcaml5.test_estimates_are_as_wrong_as_they_say",
    "test_c_probes.ByProbesOfOcaml5.test_a_detach_leaves_no_breakpoint_behind",
    "test_run.Growth5.test_growth",
    "test_totals.ResidentMemory.test_to_the_byte_of_programs_that_stand_still",
    "test_totals.ResidentMemory.test_custom_blocks_own_what_malloc_gave_to_them",
    "test_rss_parts.RssParts.test_tables_of_the_runtime",
]


def why_not():
    """Why there are no programs of that release; "" if there are."""
    if (FOLDER / "known_alloc").exists():
        return ""
    reason = FOLDER / "why-not"
    return reason.read_text().strip() if reason.exists() else f"{FOLDER} is not built (make targets)"


class Kills(test_faults.DaemonDies):
    KILLS = range(3)


class NotHere(unittest.TestCase):
    def test_ocaml_5_5(self):
        self.skipTest(why_not())


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromNames(["test_newest_ocaml.NotHere"] if why_not() else CASES)


if __name__ == "__main__":
    unittest.main()
