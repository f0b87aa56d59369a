// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_analyser.h"

#include <sys/mman.h>

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rules/rule_check.h"
#include "daemon/snapshot/answers/assertion_check.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/util/base_name.h"
#include "daemon/util/fd.h"
#include "daemon/util/log.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// Probability that a check reports a region that leaves exactly its limit.
constexpr double kChance = 1e-6;

constexpr ImageLimits kLimits{.blocks = kMaxInnerBlocks, .pointers = kMaxInnerPointers};

// begins: called before the snapshot takes any memory.
absl::StatusOr<HeapImage> take(ControlService& control,
                               const ::memprof::v1::TakeSnapshotRequest& request,
                               const RequestedProcess& process, const std::function<bool()>& waits,
                               const std::function<absl::Status()>& begins) {
  const UniqueFd file(::memfd_create("memprofd-heap", MFD_CLOEXEC));
  if (!file) return absl::ResourceExhaustedError("no memory for the snapshot's file");
  absl::Status begun;
  const HeapClient client{.take =
                              [&](std::string_view bytes) {
                                if (begun.ok()) begun = begins();
                                return begun.ok() && write_all(file.get(), bytes) == 0;
                              },
                          .waits = waits};
  const auto taken = control.take_snapshot(request, process, client);
  RETURN_IF_ERROR(begun);
  RETURN_IF_ERROR(taken.status());
  if (taken->blocks() > kMaxInnerBlocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the heap of pid ", request.pid(), " has ", format_count(taken->blocks()),
                     " blocks, more than memprofd analyses itself; use memprofctl snapshot take "
                     "and snapshot show, or why --pid ",
                     request.pid()));
  }
  ASSIGN_OR_RETURN(HeapImage image,
                   read_heap_image(absl::StrCat("/proc/self/fd/", file.get()), kLimits));
  join_threads(image);
  return image;
}

void log_violations(const ShortCensus& census) {
  for (const AssertionOutcome& outcome : census.assertions) {
    if (outcome.verdict != AssertionVerdict::kViolated) continue;
    log_warning("pid {}: {} violates the assertion {}: {}", census.info.pid,
                printable(base_name(census.info.program)), assertion_text(outcome.assertion),
                outcome_text(outcome));
  }
}

absl::StatusOr<HeapImage> read(const std::string& path, const ImageLimits& limits) {
  auto image = read_heap_image(path, limits);
  if (absl::IsResourceExhausted(image.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(image.status().message(),
                     ", which is more than memprofd analyses itself; use memprofctl snapshot"));
  }
  RETURN_IF_ERROR(image.status());
  join_threads(*image);
  if (image->info.complete) return image;
  return absl::InvalidArgumentError(absl::StrCat(path, " is truncated or damaged"));
}

}  // namespace

absl::StatusOr<AnswerTurns::Turn> HeapAnalyser::my_turn() {
  auto turn = one_at_a_time_.take(ScopedUser::current());
  if (turn.ok()) return turn;
  return absl::ResourceExhaustedError(
      "another snapshot is being analysed, and memprofd has memory for one; ask again later");
}

void HeapAnalyser::count(const HeapImage& image) {
  if (censuses_->of(image.info) != nullptr) return;
  const ShortestPaths paths(image);
  ShortCensus census = shortened(image.info, count_image(image, paths));
  census.assertions = check_assertions(image, paths, quantile_of_chance(kChance));
  // Stored snapshots are counted again after a restart.
  if (image.info.unix_ns >= began_unix_ns_) log_violations(census);
  censuses_->add(std::move(census));
}

absl::Status HeapAnalyser::analyse_taken(ControlService& control,
                                         const ::memprof::v1::TakeSnapshotRequest& request,
                                         const RequestedProcess& process,
                                         const std::function<bool()>& waits,
                                         const Analysis& analysis) {
  // Waits for the program without holding the turn, because it may never reach its safe point. The
  // request does not start while another one has the turn.
  RETURN_IF_ERROR(my_turn().status());
  std::optional<AnswerTurns::Turn> alone;
  const auto begins = [&]() -> absl::Status {
    if (alone) return absl::OkStatus();
    ASSIGN_OR_RETURN(AnswerTurns::Turn turn, my_turn());
    alone.emplace(std::move(turn));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(HeapImage image, take(control, request, process, waits, begins));
  types_.give(image);
  count(image);
  return analysis(image);
}

absl::Status HeapAnalyser::analyse_kept(const std::vector<std::string>& names,
                                        const Analysis& analysis) {
  ASSIGN_OR_RETURN(const auto alone, my_turn());
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::string path, kept_.path_of(name));
    paths.push_back(std::move(path));
  }
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(HeapImage image, read(path, kLimits));
    types_.give(image);
    count(image);
    RETURN_IF_ERROR(analysis(image));
  }
  return absl::OkStatus();
}

absl::Status HeapAnalyser::count_kept(const std::string& name) {
  const auto alone = one_at_a_time_.take_if_idle();
  if (!alone) return absl::UnavailableError("another snapshot is being analysed");
  ASSIGN_OR_RETURN(const std::string path, kept_.path_of(name));
  ASSIGN_OR_RETURN(HeapImage image, read(path, kUnasked));
  types_.give(image);
  count(image);
  return absl::OkStatus();
}

}  // namespace memprofd
