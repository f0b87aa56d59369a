// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/target_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/query/range_counter.h"
#include "daemon/state/moment_records.h"
#include "daemon/state/window_records.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Limit for records. The file's largest one is one of these plus a window.
constexpr std::size_t kRecordBytes = 1u << 20;
// A file may grow by this and by its first size before it is rewritten.
constexpr std::uint64_t kGrowthBytes = 1u << 20;
// Number of consecutive failures that count.
constexpr int kMaxFailures = 4;

// Number of windows that have ended.
std::size_t ended_windows(const HistoryView& history, int tier) {
  const std::size_t all = history.tiers[tier].size();
  return tier == 0 && history.unfinished ? all - 1 : all;
}

// Used in a target's first second: shows that it is attached, and how.
ProfileSnapshot without_counts(const ProfileSnapshot& snapshot) {
  ProfileSnapshot rest;
  rest.info = snapshot.info;
  rest.time_ns = snapshot.time_ns;
  rest.attached_ns = snapshot.attached_ns;
  rest.symbolizer = snapshot.symbolizer;
  rest.history.begin_ns = snapshot.history.begin_ns;
  return rest;
}

std::uint64_t last_end_ns(const HistoryView& history) {
  return history.tiers[0][ended_windows(history, 0) - 1]->end_ns();
}

// Grows with every event of a class.
std::uint64_t events_of(const Counters& counters) {
  std::uint64_t events = counters.allocated.samples + counters.promoted.samples;
  for (const Estimate& died : counters.deallocated) events += died.samples;
  return events;
}

}  // namespace

absl::Status TargetWriter::write(const ProfileSnapshot& snapshot, std::uint64_t room) {
  if (log_ && !is_news(snapshot)) return absl::OkStatus();
  if (left_out_ > 0) {
    --left_out_;
    return failure_;
  }
  failure_ = write_now(snapshot, room);
  failures_ = failure_.ok() ? 0 : std::min(failures_ + 1, kMaxFailures);
  left_out_ = (1 << failures_) - 1;
  return failure_;
}

absl::Status TargetWriter::write_now(const ProfileSnapshot& snapshot, std::uint64_t room) {
  if (ended_windows(snapshot.history, 0) == 0)
    return write_compacted(without_counts(snapshot), room);
  if (!can_append(snapshot)) return write_compacted(snapshot, room);
  absl::Status status = put(snapshot, false);
  file_bytes_ = log_->bytes();
  if (status.ok() && file_bytes_ > room) return write_compacted(snapshot, room);
  // The contents of the file are unknown after a failure.
  if (!status.ok()) log_.reset();
  return status;
}

bool TargetWriter::is_news(const ProfileSnapshot& snapshot) const {
  if (snapshot.attached_ns != written_.attached_ns) return true;
  const std::uint64_t newest_ns = snapshot.history.newest_ns();
  if (newest_ns != written_.newest_ns) return newest_ns > written_.newest_ns;
  return snapshot.info.state != written_.state || snapshot.info.is_asked != written_.is_asked;
}

bool TargetWriter::can_append(const ProfileSnapshot& snapshot) const {
  if (!log_ || written_.attached_ns != snapshot.attached_ns || written_.ends_ns[0] == 0 ||
      written_.symbolizer != snapshot.symbolizer ||
      log_->bytes() > 2 * written_.first_bytes + kGrowthBytes) {
    return false;
  }
  // The remaining windows must contain all events since.
  const std::uint64_t until_ns = last_end_ns(snapshot.history);
  const auto since = snapshot.history.cover(written_.ends_ns[0], until_ns);
  return written_.ends_ns[0] == until_ns || (!since.empty() && since.back()->end_ns() == until_ns);
}

absl::Status TargetWriter::write_compacted(const ProfileSnapshot& snapshot, std::uint64_t room) {
  const std::string path = absl::StrCat(path_, ".new");
  log_.reset();
  written_ = {.attached_ns = snapshot.attached_ns, .symbolizer = snapshot.symbolizer};
  ASSIGN_OR_RETURN(RecordLog log, RecordLog::create(path));
  log_.emplace(std::move(log));
  absl::Status status = put(snapshot, true);
  if (status.ok() && log_->bytes() > room) {
    status = absl::ResourceExhaustedError(absl::StrCat(path_, " needs ", log_->bytes(),
                                                       " bytes, there is room for ", room,
                                                       "; give more with --state.max-bytes"));
  }
  if (status.ok() && std::rename(path.c_str(), path_.c_str()) != 0) {
    status = absl::UnavailableError(absl::StrCat("cannot rename ", path, ": ", strerror(errno)));
  }
  if (!status.ok()) {
    log_.reset();
    ::unlink(path.c_str());
    return status;
  }
  file_bytes_ = written_.first_bytes = log_->bytes();
  return status;
}

void TargetWriter::remove() {
  log_.reset();
  ::unlink(path_.c_str());
  ::unlink(absl::StrCat(path_, ".new").c_str());
  file_bytes_ = 0;
}

absl::Status TargetWriter::put(const ProfileSnapshot& snapshot, bool first) {
  record_.Clear();
  record_bytes_ = 0;
  RETURN_IF_ERROR(put_rows(snapshot));
  RETURN_IF_ERROR(put_windows(snapshot.history));
  if (snapshot.values != nullptr) {
    RETURN_IF_ERROR(put_values(*snapshot.values, written_.values, record_,
                               [this](std::size_t bytes) { return added(bytes); }));
  }
  if (first) RETURN_IF_ERROR(put_counts(snapshot));
  put_last(snapshot);
  written_.newest_ns = snapshot.history.newest_ns();
  written_.state = snapshot.info.state;
  written_.is_asked = snapshot.info.is_asked;
  return flush();
}

absl::Status TargetWriter::put_rows(const ProfileSnapshot& snapshot) {
  for (const ProfileRow& row : snapshot.rows) {
    const std::uint32_t id = row.id.value();
    if (id >= written_.events.size()) written_.events.resize(id + 1);
    const std::uint64_t events = events_of(row.counters);
    if (written_.events[id] == events) continue;
    if (written_.events[id] == 0) {
      put_callstack_of(row, *snapshot.symbolizer);
      put_class(row.id, row.alloc_class, *record_.add_classes());
    }
    put_exact(row);
    written_.events[id] = events;
    RETURN_IF_ERROR(added(80));
  }
  return absl::OkStatus();
}

// Also writes the names of its frames.
void TargetWriter::put_callstack_of(const ProfileRow& row, Symbolizer& symbolizer) {
  const std::uint32_t id = row.alloc_class.callstack.value();
  if (id >= written_.callstacks.size()) written_.callstacks.resize(id + 1);
  if (written_.callstacks[id]) return;
  written_.callstacks[id] = true;
  put_callstack(*row.callstack, *record_.add_callstacks());
  row.callstack->for_each_frame(
      [&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t /*times*/) {
        put_frame(symbolizer, address, alloc_idx);
      });
  record_bytes_ += 40 + 8 * row.callstack->entries.size();
}

void TargetWriter::put_frame(Symbolizer& symbolizer, std::uint64_t address,
                             std::int32_t alloc_idx) {
  const FrameId id = symbolizer.frame_id(address, alloc_idx);
  if (!written_.frames.insert(id.value()).second) return;
  state::Frame& frame = *record_.add_frames();
  frame.set_return_address(address);
  frame.set_alloc_idx(alloc_idx);
  for (const LocationId location : symbolizer.locations(id)) {
    const auto number = static_cast<std::uint32_t>(written_.locations.size());
    const auto [known, is_new] = written_.locations.emplace(location.value(), number);
    frame.add_locations(known->second);
    if (!is_new) continue;
    const Location& place = symbolizer.location(location);
    put_location(place, *record_.add_locations());
    record_bytes_ += 20 + place.function.size() + place.file.size() + place.library.size();
  }
  record_bytes_ += 20;
}

void TargetWriter::put_exact(const ProfileRow& row) {
  state::ExactWords& exact = *record_.mutable_exact();
  exact.add_class_ids(row.id.value());
  exact.add_allocated(row.counters.allocated.words);
  exact.add_promoted(row.counters.promoted.words);
  exact.add_died_young(row.counters.deallocated[static_cast<int>(Heap::kMinor)].words);
  exact.add_died_old(row.counters.deallocated[static_cast<int>(Heap::kMajor)].words);
  exact.add_lifetimes_ns(row.counters.deaths.sum_ns());
}

absl::Status TargetWriter::put_windows(const HistoryView& history) {
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    for (std::size_t i = 0; i < ended_windows(history, tier); ++i) {
      const HistoryWindow& window = *history.tiers[tier][i];
      if (window.end_ns() <= written_.ends_ns[tier]) continue;
      put_window(window, tier, *record_.add_windows());
      written_.ends_ns[tier] = window.end_ns();
      RETURN_IF_ERROR(added(3 * window.memory_bytes()));
    }
  }
  return absl::OkStatus();
}

// Writes until the end of the last window that has ended.
absl::Status TargetWriter::put_counts(const ProfileSnapshot& snapshot) {
  if (snapshot.history.empty()) return absl::OkStatus();
  const RangeCounter counter(snapshot);
  const std::vector<Counters> counts =
      counter.flows(snapshot.history.begin_ns, last_end_ns(snapshot.history));
  for (std::size_t row = 0; row < counts.size(); ++row) {
    memprofd::put_counts(snapshot.rows[row].id, counts[row], *record_.add_counts());
    RETURN_IF_ERROR(added(200 + 28 * counts[row].deaths.entries().size()));
  }
  if (snapshot.history.peak == nullptr) return absl::OkStatus();
  for (const PeakLive::Class& of_class : snapshot.history.peak->classes) {
    memprofd::put_counts(of_class.id, of_class.counters, *record_.add_peak());
    RETURN_IF_ERROR(added(200 + 28 * of_class.counters.deaths.entries().size()));
  }
  return absl::OkStatus();
}

void TargetWriter::put_last(const ProfileSnapshot& snapshot) {
  state::Moment& moment = *record_.mutable_moment();
  put_moment(snapshot, moment);
  if (snapshot.history.unfinished) {
    put_window(*snapshot.history.tiers[0].back(), 0, *moment.mutable_unfinished());
  }
  for (const LiveOfSession& live : snapshot.live) put_live(live, *moment.add_ages());
  record_.set_complete(true);
}

absl::Status TargetWriter::added(std::size_t bytes) {
  record_bytes_ += bytes;
  return record_bytes_ < kRecordBytes ? absl::OkStatus() : flush();
}

absl::Status TargetWriter::flush() {
  RETURN_IF_ERROR(log_->append(record_.SerializeAsString()));
  record_.Clear();
  record_bytes_ = 0;
  return absl::OkStatus();
}

}  // namespace memprofd
