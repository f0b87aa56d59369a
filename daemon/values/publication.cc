// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/publication.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "absl/strings/str_split.h"
#include "daemon/history/value_sample.h"
#include "daemon/snapshot/assertion_slots.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/whole_record.h"

namespace memprofd {
namespace {

// A cell holds twice its count, sometimes plus 1. The sum wraps, because the program may have put
// any bits there.
std::int64_t wrapping_sum(std::int64_t hits, std::uint64_t cell) {
  const std::int64_t more = static_cast<std::int64_t>(cell) >> 1;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(hits) +
                                   static_cast<std::uint64_t>(more));
}

// Maximum number of attempts to read data that is being written: per record, and in total.
constexpr int kCellTries = 100;
constexpr int kAllTries = 5000;
constexpr std::size_t kCacheLine = 64;
constexpr std::uint64_t kObservedNs = 60'000'000'000;
constexpr std::uint64_t kUntil = offsetof(memprof_values_head, observed_until_ns);

template <std::size_t kRoom>
std::string text_of(const char (&text)[kRoom]) {
  return std::string(text, strnlen(text, kRoom));
}

static_assert(sizeof(memprof_timer_cell) == kCacheLine &&
              offsetof(memprof_values, lanes) % kCacheLine == 0 &&
              offsetof(memprof_lane, timers) % kCacheLine == 0 &&
              sizeof(memprof_lane) % kCacheLine == 0);

bool is_sound(const memprof_slot& slot) {
  switch (slot.kind) {
    case MEMPROF_SLOT_POINT:
      return true;
    case MEMPROF_SLOT_TIMER:
    case MEMPROF_SLOT_PHASE:
      return slot.cell < MEMPROF_VALUES_TIMERS;
    case MEMPROF_SLOT_TAG:
      return true;
    case MEMPROF_SLOT_REQUEST:
      return slot.cell < MEMPROF_VALUES_REQUESTS;
    case MEMPROF_SLOT_VALUE:
      return slot.type <= MEMPROF_VALUE_ANY && slot.source <= MEMPROF_VALUE_FUNCTION &&
             slot.state <= MEMPROF_VALUE_RAISED;
    default:
      return false;
  }
}

std::vector<std::pair<std::string, std::string>> labels_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> labels;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    labels.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return labels;
}

// The value that the program has put into the slot itself.
Value set_value(const memprof_slot& slot) {
  Value value;
  if (slot.state == MEMPROF_VALUE_NEVER) {
    value.why = WhyUnread::kNotYet;
  } else if (slot.state == MEMPROF_VALUE_RAISED) {
    value.why = WhyUnread::kRaised;
  } else if (slot.type == MEMPROF_VALUE_FLOAT) {
    value.kind = ValueKind::kFloat;
    value.number = std::bit_cast<double>(slot.number);
  } else if (slot.type == MEMPROF_VALUE_STRING) {
    value.kind = ValueKind::kString;
    value.size = slot.text_bytes;
    value.text.assign(slot.text, std::min<std::size_t>(slot.text_bytes, sizeof slot.text));
    value.is_cut = value.text.size() < value.size;
  } else {
    value.kind = ValueKind::kInteger;
    value.integer = static_cast<std::int64_t>(slot.number);
  }
  return value;
}

class PublicationReading {
 public:
  PublicationReading(const MemoryReader& memory, std::uint64_t address, const TickMoment& now,
                     bool by_lane)
      : memory_(memory), address_(address), now_(now), by_lane_(by_lane) {}

  absl::StatusOr<Publication> run() {
    RETURN_IF_ERROR(read_head());
    RETURN_IF_ERROR(read_slots(0, head_.slots_used));
    if (head_.refused > 0) {
      RETURN_IF_ERROR(read_slots(MEMPROF_VALUES_OTHER_TIMERS, 2));
    }
    for (std::uint32_t lane = 0; lane < head_.lanes_used; ++lane) {
      RETURN_IF_ERROR(add_lane(lane));
    }
    if (head_.shared_used != 0) RETURN_IF_ERROR(add_lane(MEMPROF_VALUES_SHARED_LANE));
    finish_timers();
    RETURN_IF_ERROR(read_lines());
    return std::move(report_);
  }

 private:
  absl::Status read_head() {
    RETURN_IF_ERROR(memory_.read_value(address_, head_));
    if (!is_known(head_) || head_.slot_bytes != sizeof(memprof_slot) ||
        head_.lane_bytes != sizeof(memprof_lane) ||
        head_.log_entry_bytes != sizeof(memprof_log_entry) || !has_known_histograms()) {
      return absl::FailedPreconditionError(
          "published values cannot be read: the program was built with another "
          "memprof-agent.values; build it with that of this memprofd");
    }
    if (head_.slots_used > MEMPROF_VALUES_OWN_SLOTS || head_.timers_used >= MEMPROF_VALUES_TIMERS ||
        head_.lanes_used > MEMPROF_VALUES_SHARED_LANE) {
      return absl::FailedPreconditionError(
          "published values cannot be read: the program's registry is damaged, it may have "
          "overwritten it");
    }
    if (head_.clock != MEMPROF_VALUES_TSC) now_ = now_.in_ns();
    report_.refused = head_.refused;
    report_.lost_lines = head_.log_lost;
    report_.waiting = head_.waiting;
    return absl::OkStatus();
  }

  // An older library has no histograms.
  bool has_known_histograms() const {
    return head_.histogram_bytes == 0 || head_.histogram_bytes == sizeof(memprof_timer_histogram);
  }

  // A cell fits in a cache line, so it is read as it was at one moment.
  absl::Status read_whole(std::uint64_t address, memprof_timer_cell& cell, bool& is_torn) {
    for (int tries = 0; !is_whole(cell) && tries < kCellTries && tries_left_ > 0; ++tries) {
      --tries_left_;
      RETURN_IF_ERROR(memory_.read_value(address, cell));
    }
    is_torn |= !is_whole(cell);
    return absl::OkStatus();
  }

  absl::Status read_slot_in_order(std::uint64_t address, memprof_slot& slot, bool& is_torn) {
    is_torn = true;
    for (int tries = 0; is_torn && tries < kCellTries && tries_left_ > 0; ++tries) {
      --tries_left_;
      ASSIGN_OR_RETURN(const bool is_whole, read_in_order(memory_, address, slot));
      is_torn = !is_whole;
    }
    return absl::OkStatus();
  }

  absl::Status read_slots(std::uint32_t first, std::uint32_t count) {
    std::vector<memprof_slot> slots(count);
    const std::uint64_t begin =
        address_ + offsetof(memprof_values, slots) + first * sizeof(memprof_slot);
    ASSIGN_OR_RETURN(const std::vector<bool> is_same, read_twice(memory_, begin, slots));
    for (std::uint32_t i = 0; i < count; ++i) {
      bool is_torn = false;
      if (!is_same[i] || !is_whole(slots[i])) {
        RETURN_IF_ERROR(read_slot_in_order(begin + i * sizeof(memprof_slot), slots[i], is_torn));
      }
      if (assertion_kind_of(slots[i].kind)) continue;  // only snapshots are checked
      if (!is_sound(slots[i])) {
        ++report_.malformed;
        continue;
      }
      add_slot(slots[i], first + i);
      report_.all.back().is_torn = is_torn;
    }
    return absl::OkStatus();
  }

  void add_slot(const memprof_slot& slot, std::uint32_t index) {
    PublishedValue& out = report_.all.emplace_back();
    out.kind = static_cast<PublishedValue::Kind>(slot.kind - MEMPROF_SLOT_POINT);
    out.name = text_of(slot.name);
    out.unit = text_of(slot.unit);
    out.labels = labels_of(text_of(slot.labels));
    out.slot = index;
    out.control = slot.control;
    out.cell = slot.cell;
    sums_.push_back(0);
    if (out.kind == PublishedValue::Kind::kTag) {
      out.source = MEMPROF_VALUE_OCAML;
      out.no_mark = slot.number;
      if (out.is_off()) out.value.why = WhyUnread::kOff;
    }
    if (out.kind != PublishedValue::Kind::kValue) return;
    out.type = static_cast<memprof_value_type>(slot.type);
    out.source = static_cast<memprof_value_source>(slot.source);
    out.root = slot.root;
    if (out.source == MEMPROF_VALUE_FUNCTION) {
      const std::uint32_t asked_ms = slot.control & MEMPROF_CONTROL_PERIOD_MS;
      out.period_ms = asked_ms != 0 ? asked_ms : slot.period_ms;
    }
    if (out.source != MEMPROF_VALUE_SET && out.source != MEMPROF_VALUE_FUNCTION) {
      if (out.is_off()) out.value.why = WhyUnread::kOff;
      return;
    }
    out.value = set_value(slot);
    if (slot.state != MEMPROF_VALUE_NEVER) out.changed_ns = slot.changed_ns;
  }

  // Reads only used cells, so that pages which the program has not touched stay untouched.
  absl::Status add_lane(std::uint32_t lane) {
    const std::uint64_t begin =
        address_ + offsetof(memprof_values, lanes) + lane * sizeof(memprof_lane);
    const bool has_others = head_.refused > 0;
    std::vector<memprof_point_cell> points(has_others ? MEMPROF_VALUES_SLOTS : head_.slots_used);
    std::vector<memprof_timer_cell> timers(has_others ? MEMPROF_VALUES_TIMERS : head_.timers_used);
    const std::uint64_t timers_begin = begin + offsetof(memprof_lane, timers);
    RETURN_IF_ERROR(read_all(memory_, begin, points));
    RETURN_IF_ERROR(read_all(memory_, timers_begin, timers));
    for (std::size_t i = 0; i < report_.all.size(); ++i) {
      PublishedValue& out = report_.all[i];
      if (out.kind == PublishedValue::Kind::kPoint) {
        if (out.slot < points.size()) add_hits(points[out.slot].hits, lane, out);
      } else if (out.has_times() && out.cell < timers.size()) {
        memprof_timer_cell& cell = timers[out.cell];
        RETURN_IF_ERROR(read_whole(timers_begin + out.cell * sizeof cell, cell, out.is_torn));
        add_cell(cell, lane, i);
      }
    }
    if (head_.histogram_bytes == 0) return absl::OkStatus();
    const std::uint64_t histograms = address_ + offsetof(memprof_values, histograms);
    return durations_.add_lane(memory_, histograms + lane * sizeof(memprof_lane_histograms),
                               timers);
  }

  void add_hits(std::uint64_t cell, std::uint32_t lane, PublishedValue& out) const {
    out.hits = wrapping_sum(out.hits, cell);
    if (by_lane_ && cell >> 1 != 0) out.lanes.push_back({lane, wrapping_sum(0, cell)});
  }

  void add_cell(const memprof_timer_cell& cell, std::uint32_t lane, std::size_t i) {
    PublishedValue& out = report_.all[i];
    out.starts += cell.starts;
    out.stops += cell.stops;
    sums_[i] += cell.sum_ticks;
    const double max_seconds = static_cast<double>(cell.max_ticks) * now_.ns_per_tick / 1e9;
    out.max_seconds = std::max(out.max_seconds, max_seconds);
    if (!by_lane_ || (cell.starts == 0 && cell.stops == 0)) return;
    out.lanes.push_back({lane, 0, cell.starts, cell.stops,
                         seconds_of(cell.sum_ticks, cell.starts - cell.stops), max_seconds});
  }

  // Intervals that began after the clock was read count as 0.
  double seconds_of(std::uint64_t sum_ticks, std::uint64_t running) const {
    const auto ticks = static_cast<std::int64_t>(sum_ticks + running * now_.ticks);
    return static_cast<double>(std::max<std::int64_t>(ticks, 0)) * now_.ns_per_tick / 1e9;
  }

  void finish_timers() {
    for (std::size_t i = 0; i < report_.all.size(); ++i) {
      PublishedValue& out = report_.all[i];
      out.seconds = seconds_of(sums_[i], out.starts - out.stops);
      if (!out.has_times()) continue;
      out.durations = durations_.of(out.cell, now_.ns_per_tick);
      if (out.durations == nullptr) continue;
      out.max_seconds = std::max(out.max_seconds, out.durations->longest_seconds());
    }
  }

  absl::Status read_lines() {
    std::vector<memprof_log_entry> entries(
        std::min<std::uint64_t>(head_.log_next, MEMPROF_VALUES_LOG));
    ASSIGN_OR_RETURN(const std::vector<bool> is_same,
                     read_twice(memory_, address_ + offsetof(memprof_values, log), entries));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const memprof_log_entry& entry = entries[i];
      const std::uint64_t number = entry.seq / 2 - 1;
      if (!is_same[i] || !is_whole(entry) || entry.seq == 0 || number % MEMPROF_VALUES_LOG != i)
        continue;
      add_line(entry, number);
    }
    std::sort(report_.lines.begin(), report_.lines.end(),
              [](const PublishedLine& a, const PublishedLine& b) { return a.number < b.number; });
    return absl::OkStatus();
  }

  void add_line(const memprof_log_entry& entry, std::uint64_t number) {
    const std::uint64_t ticks = now_.ticks - std::min(now_.ticks, std::uint64_t{entry.ticks});
    PublishedLine line{.number = number,
                       .seconds_ago = static_cast<double>(ticks) * now_.ns_per_tick / 1e9};
    if (entry.kind == MEMPROF_LOG_LINE || entry.kind == MEMPROF_LOG_PAUSE) {
      line.kind = static_cast<memprof_log_kind>(entry.kind);
      line.text.assign(entry.text, std::min<std::size_t>(entry.text_bytes, sizeof entry.text));
      line.is_cut = line.text.size() < entry.text_bytes;
    } else {
      const auto phase =
          std::find_if(report_.all.begin(), report_.all.end(), [&](const PublishedValue& one) {
            return one.kind == PublishedValue::Kind::kPhase && one.slot == entry.slot;
          });
      if (entry.kind > MEMPROF_LOG_PHASE_LEAVE || phase == report_.all.end()) return;
      line.kind = static_cast<memprof_log_kind>(entry.kind);
      line.text = phase->name;
    }
    report_.lines.push_back(std::move(line));
  }

  const MemoryReader& memory_;
  const std::uint64_t address_;
  TickMoment now_;
  const bool by_lane_;
  memprof_values_head head_{};
  int tries_left_ = kAllTries;
  // Indexed by place in report_.all, for timers: ticks, modulo 2^64.
  std::vector<std::uint64_t> sums_;
  TimerDurations durations_;
  Publication report_;
};

}  // namespace

std::string PublishedValue::full_name() const { return name_with_labels(name, labels); }

bool is_known(const memprof_values_head& head) {
  return head.magic == MEMPROF_VALUES_MAGIC && head.abi == MEMPROF_VALUES_ABI;
}

absl::StatusOr<Publication> read_publication(const MemoryReader& memory, std::uint64_t address,
                                             const TickMoment& now, bool by_lane) {
  return PublicationReading(memory, address, now, by_lane).run();
}

absl::StatusOr<bool> observe_report(const WritableMemory& memory, std::uint64_t address,
                                    std::uint64_t now_ns) {
  memprof_values_head head{};
  RETURN_IF_ERROR(memory.read_value(address, head));
  if (!is_known(head)) return false;
  if (head.observed_until_ns < now_ns + kObservedNs / 2) {
    RETURN_IF_ERROR(memory.write_value(address + kUntil, now_ns + kObservedNs));
  }
  return head.observed_until_ns <= now_ns;
}

absl::StatusOr<std::uint32_t> resume_report(const WritableMemory& memory, std::uint64_t address) {
  memprof_values_head head{};
  RETURN_IF_ERROR(memory.read_value(address, head));
  if (!is_known(head)) {
    return absl::FailedPreconditionError("published values are not understood");
  }
  RETURN_IF_ERROR(memory.write_value(address + offsetof(memprof_values_head, resumed),
                                     std::uint64_t{head.pauses}));
  return head.waiting;
}

}  // namespace memprofd
