// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/program_sum.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

void add_totals(TargetCounters& sum, const TargetCounters& process) {
  for (int heap = 0; heap < kHeaps; ++heap) {
    for (int source = 0; source < kMemprofSources; ++source) {
      sum.allocated[heap][source] += process.allocated[heap][source];
    }
    sum.deallocated[heap] += process.deallocated[heap];
  }
  sum.promoted += process.promoted;
  sum.live += process.live;
  sum.alloc_events += process.alloc_events;
  sum.promote_events += process.promote_events;
  sum.dealloc_events += process.dealloc_events;
  sum.unsampled_words += process.unsampled_words;
}

void add_drops(DropCounters& sum, const DropCounters& process) {
  for (int drop = 0; drop < kDrops; ++drop) {
    sum.add(static_cast<Drop>(drop), process.get(static_cast<Drop>(drop)));
  }
}

// Widens the standard error to that of a sum of `alike` equal parts, as if each sample represented
// more.
void widen(Estimate& sum, double alike) {
  sum.variance_words2 *= alike;
  sum.skew_words3 *= alike * alike;
}

void widen(Counters& sum, double alike) {
  for (Estimate* of : {&sum.allocated, &sum.promoted, &sum.live}) widen(*of, alike);
  for (Estimate& of : sum.deallocated) widen(of, alike);
}

void widen(TargetCounters& sum, double alike) {
  for (auto& of_heap : sum.allocated) {
    for (Estimate& of : of_heap) widen(of, alike);
  }
  for (Estimate* of : {&sum.promoted, &sum.live}) widen(*of, alike);
  for (Estimate& of : sum.deallocated) widen(of, alike);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramSum>> ProgramSum::create(
    std::shared_ptr<RunProgram> program) {
  ASSIGN_OR_RETURN(std::shared_ptr<Symbolizer> names, program->names());
  return std::unique_ptr<ProgramSum>(new ProgramSum(std::move(program), std::move(names)));
}

CallstackId ProgramSum::callstack(const Callstack& of_process, std::uint64_t load_bias) {
  std::vector<std::uint64_t> entries = of_process.entries;
  for (std::uint64_t& entry : entries) entry = program_->in_file(entry, load_bias);
  if (entries.empty()) return CallstackId(0);
  const std::uint64_t hash = absl::HashOf(entries, of_process.alloc_idx) | 1;
  const auto id = callstacks_.intern({.hash = StackHash(hash),
                                      .entries = entries,
                                      .alloc_idx = of_process.alloc_idx,
                                      .n_frames = of_process.n_frames,
                                      .truncated = of_process.truncated,
                                      .broken = of_process.broken});
  return callstacks_.counted(id, sum_.drops);
}

void ProgramSum::add(const ProfileSnapshot& process, std::uint64_t load_bias, bool forked,
                     std::optional<double> words) {
  forked_ += forked ? 1 : 0;
  if (processes_++ == 0) {
    sum_.info = process.info;
    sum_.attached_ns = process.attached_ns;
  }
  allocated_words_ =
      words && allocated_words_ ? std::optional(*allocated_words_ + *words) : std::nullopt;
  sum_.time_ns = std::max(sum_.time_ns, process.time_ns);
  add_totals(sum_.counters, process.counters);
  add_drops(sum_.drops, process.drops);
  sum_.live_samples_tracked += process.live_samples_tracked;
  for (const ProfileRow& row : process.rows) {
    AllocClass of = row.alloc_class;
    of.thread = AllocClass::kAnyThread;
    of.domain = AllocClass::kAnyDomain;
    of.callstack = callstack(*row.callstack, load_bias);
    const auto [known, added] = rows_.try_emplace(of, sum_.rows.size());
    if (added) {
      sum_.rows.push_back({ClassId(static_cast<std::uint32_t>(sum_.rows.size() + 1)), of,
                           &callstacks_.get(of.callstack), row.counters});
    } else {
      sum_.rows[known->second].counters += row.counters;
    }
  }
  const std::shared_ptr<const PeakLive>& peak = process.history.peak;
  if (peak != nullptr && peak->live.words > largest_peak_.words) {
    largest_peak_ = peak->live;
    pid_of_largest_ = process.info.pid;
  }
}

absl::StatusOr<ProfileSnapshotPtr> ProgramSum::snapshot(int) {
  if (processes_ == 0) return absl::NotFoundError("no process of the program has ended");
  auto snapshot = std::make_shared<ProfileSnapshot>(sum_);
  snapshot->stacks_interned = callstacks_.size();
  snapshot->callstacks = callstacks_.kept();
  snapshot->symbolizer = names_;
  if (forked_ > 1) {
    const auto alike = static_cast<double>(forked_);
    widen(snapshot->counters, alike);
    for (ProfileRow& row : snapshot->rows) widen(row.counters, alike);
  }
  return snapshot;
}

std::vector<ProfileSnapshotPtr> ProgramSum::snapshots() {
  const absl::StatusOr<ProfileSnapshotPtr> one = snapshot(0);
  if (!one.ok()) return {};
  return {*one};
}

}  // namespace memprofd
