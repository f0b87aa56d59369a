// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/checked_program.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/elf_file.h"
#include "daemon/run/own_copy.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/assertion_slots.h"
#include "daemon/util/clock.h"
#include "daemon/util/fd.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/publication.h"

namespace memprofd {
namespace {

// A pause may be long, because no other client waits for the program.
constexpr double kMaxPauseSeconds = 60;

}  // namespace

bool may_assert(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ElfFile>> file = ElfFile::open(path, path);
  return file.ok() && find_registry(**file, 0) != 0;
}

void CheckedProgram::update(RunTarget& run) {
  if (!run.begun()) return;
  if (!program_) find_program(run);
  if (!program_ || program_->registry == 0) return;
  const Target& program = *program_;
  memprof_values_head head{};
  if (!program.memory->read_value(program.registry, head).ok() || !is_known(head)) return;
  note_assertions(std::min(head.slots_used, MEMPROF_VALUES_SLOTS));
  if (head.check_point <= answered_) return;
  const auto write = [&](std::size_t offset, std::uint64_t value) {
    return program.memory->write_value(program.registry + offset, value);
  };
  absl::Status status =
      write(offsetof(memprof_values_head, check_until_ns), monotonic_ns() + kLeaseNs);
  if (status.ok()) status = verify(run);
  if (!status.ok()) problem_ = std::string(status.message());
  answered_ = head.check_point;
  (void)write(offsetof(memprof_values_head, check_until_ns), 0);
  (void)write(offsetof(memprof_values_head, check_answered), answered_);
}

void CheckedProgram::finish(const RunTarget& run) {
  if (run.begun()) find_assertions(run);
}

void CheckedProgram::find_assertions(const RunTarget& run) {
  if (!may_assert_) may_assert_ = may_assert(run.program().name());
}

// A program that has already ended did not wait: it had nothing to verify, or was killed.
void CheckedProgram::find_program(const RunTarget& run) {
  find_assertions(run);
  if (!*may_assert_) return;
  absl::StatusOr<Target> found = discover_target(run.pid());
  if (found.ok()) {
    program_.emplace(*std::move(found));
  } else if (!absl::IsNotFound(found.status())) {
    problem_ = std::string(found.status().message());
    may_assert_ = false;
  }
}

void CheckedProgram::note_assertions(std::uint32_t slots) {
  const Target& program = *program_;
  for (; slots_ < slots; ++slots_) {
    std::uint32_t kind = 0;
    (void)program.memory->read_value(program.registry + offsetof(memprof_values, slots) +
                                         slots_ * sizeof(memprof_slot) +
                                         offsetof(memprof_slot, kind),
                                     kind);
    has_assertions_ |= assertion_kind_of(kind).has_value();
  }
}

absl::Status CheckedProgram::verify(RunTarget& run) {
  ASSIGN_OR_RETURN(HeapImage image, take(run));
  join_threads(image);
  merge(check_assertions(image, ShortestPaths(image), quantile_));
  return absl::OkStatus();
}

absl::StatusOr<HeapImage> CheckedProgram::take(RunTarget& run) const {
  const Target& program = *program_;
  const UniqueFd file(::memfd_create("memprofctl-heap", MFD_CLOEXEC));
  if (!file) return file_error(errno, "cannot create a file in memory for the snapshot");
  const bool is_linked = !program.agents.empty() && program.agents.front().file != nullptr;
  const OwnCopy copy{
      .target = program,
      .agent_file = is_linked ? program.agents.front().file : agent_.elf->descriptor(),
      .control_address = run.agent().control_address(),
      .symbolizer = run.symbolizer(),
      .sampling_rate = run.rate(),
      .sites = [&run](const std::vector<SampleId>& numbers) { return run.sites_of(numbers); }};
  const HeapClient client{
      .take = [&](std::string_view bytes) { return write_all(file.get(), bytes) == 0; },
      .waits = [&] { return !has_exited(program); }};
  RETURN_IF_ERROR(take_own_copy(copy, {.max_pause_seconds = kMaxPauseSeconds}, client).status());
  return read_(absl::StrCat("/proc/self/fd/", file.get()));
}

// A violation is final; otherwise the latest result replaces the earlier one.
void CheckedProgram::merge(std::vector<AssertionOutcome> outcomes) {
  for (AssertionOutcome& outcome : outcomes) {
    const auto before = std::ranges::find_if(outcomes_, [&](const AssertionOutcome& one) {
      return one.assertion.kind == outcome.assertion.kind &&
             one.assertion.name == outcome.assertion.name;
    });
    if (before == outcomes_.end()) {
      outcomes_.push_back(std::move(outcome));
    } else if (before->verdict != AssertionVerdict::kViolated) {
      *before = std::move(outcome);
    }
  }
}

std::string CheckedProgram::why_not_checked(const ProgramEnd& end) const {
  if (!problem_.empty()) return problem_;
  if (!may_assert_.value_or(false) || answered_ > 0) return "";
  // A program that was killed may have made assertions that were not seen.
  if (!has_assertions_ && end.cause == EndCause::kExit) return "";
  return "the program ended without running at_exit; call Memprof_check.verify before it ends";
}

}  // namespace memprofd
