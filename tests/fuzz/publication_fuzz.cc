// SPDX-License-Identifier: Apache-2.0
// Published values in a program's memory (memprof_values_abi.h). Input: the head, the counts of
// slots, timer cells and log entries, then those; each goes to the front of its table.
#include <memory>

#include "daemon/values/publication.h"
#include "tests/fuzz/fuzz_target.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kAddress = 0x7f0000001000;

class Registry : public WritableMemory {
 public:
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    const std::uint64_t at = address - kAddress;
    require(address >= kAddress && at <= sizeof *it && out.size() <= sizeof *it - at,
            "what is not the registry's is read");
    std::memcpy(out.data(), reinterpret_cast<const char*>(it.get()) + at, out.size());
    return absl::OkStatus();
  }
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override {
    const std::uint64_t until = kAddress + offsetof(memprof_values_head, observed_until_ns);
    require(address == until && bytes.size() == 8, "something else is written");
    return absl::OkStatus();
  }

  // Clears what an input can change; everything would be 23 MB.
  void clear() {
    std::memset(it.get(), 0, offsetof(memprof_values, lanes[1]));
    std::memset(it->histograms, 0, sizeof *it->histograms);
  }

  std::unique_ptr<memprof_values> it = std::make_unique<memprof_values>();
};

struct Counts {
  std::uint8_t slots, timers, lines;
};

void check(const Publication& report) {
  for (const PublishedValue& one : report.all) {
    require(one.name.size() <= MEMPROF_SLOT_NAME && one.unit.size() <= MEMPROF_SLOT_UNIT,
            "a name that is too long");
    require(one.value.text.size() <= MEMPROF_SLOT_TEXT, "a text that is too long");
    require(one.seconds >= 0 && one.max_seconds >= 0, "less than no time");
    if (one.durations == nullptr) continue;
    const auto half = one.durations->quantile(0.5), rest = one.durations->quantile(0.99);
    require(!half || half->low_seconds <= rest->low_seconds, "quantiles that are not in order");
    require(one.full_name().size() >= one.name.size(), "no name");
  }
  require(report.lines.size() <= MEMPROF_VALUES_LOG, "too many lines");
  for (std::size_t i = 1; i < report.lines.size(); ++i) {
    require(report.lines[i - 1].number <= report.lines[i].number, "lines that are not in order");
  }
}

bool read(std::string_view bytes) {
  Input input(bytes);
  static Registry registry;
  registry.clear();
  registry.it->head = input.take<memprof_values_head>();
  const auto counts = input.take<Counts>();
  for (int i = 0; i < counts.slots; ++i) registry.it->slots[i] = input.take<memprof_slot>();
  for (int i = 0; i < counts.timers; ++i) {
    const int timer = i % static_cast<int>(MEMPROF_VALUES_TIMERS);
    const auto cell = registry.it->lanes[0].timers[timer] = input.take<memprof_timer_cell>();
    memprof_timer_histogram& histogram = registry.it->histograms[0].timers[timer];
    histogram.sum_ticks = cell.reserved[0];
    histogram.counts[cell.reserved[1] % MEMPROF_VALUES_BUCKETS] = cell.stops;
  }
  for (int i = 0; i < counts.lines; ++i) registry.it->log[i] = input.take<memprof_log_entry>();
  const TickMoment now{.ticks = 10'000, .ns = 5'000, .ns_per_tick = 0.5};
  const auto report = read_publication(registry, kAddress, now);
  (void)observe_report(registry, kAddress, now.ns);
  if (!report.ok()) return false;
  check(*report);
  return report->malformed == 0;
}

// ------------------------------------------------------------ seeds

memprof_values_head head_of(const Counts& counts) {
  memprof_values_head head{};
  head.magic = MEMPROF_VALUES_MAGIC;
  head.abi = MEMPROF_VALUES_ABI;
  head.slot_bytes = sizeof(memprof_slot);
  head.lane_bytes = sizeof(memprof_lane);
  head.log_entry_bytes = sizeof(memprof_log_entry);
  head.histogram_bytes = sizeof(memprof_timer_histogram);
  head.slots_used = counts.slots;
  head.timers_used = counts.timers;
  head.lanes_used = head.shared_used = 1;
  head.log_next = counts.lines;
  return head;
}

memprof_slot slot_of(std::uint8_t number) {
  memprof_slot slot{};
  slot.kind = MEMPROF_SLOT_POINT + number % 4;
  slot.cell = number / 4 % 4;
  std::snprintf(slot.name, sizeof slot.name, "name %d", number);
  std::strcpy(slot.labels, "route=/a=b\nmethod=get");
  slot.type = MEMPROF_VALUE_INT + number / 4 % 5;
  slot.source = number < 20 ? MEMPROF_VALUE_SET : number / 8 % 4;
  slot.state = number < 20 ? MEMPROF_VALUE_THERE : number / 4 % 3;
  slot.number = slot.root = 77u * number;
  slot.text_bytes = 3;
  std::strcpy(slot.text, "abc");
  slot.done = slot.seq = 2;
  return slot;
}

std::string seed(const Counts& counts) {
  std::string bytes;
  put(bytes, head_of(counts));
  put(bytes, counts);
  for (std::uint8_t i = 0; i < counts.slots; ++i) put(bytes, slot_of(i));
  for (std::uint8_t i = 0; i < counts.timers; ++i) {
    put(bytes, memprof_timer_cell{.done = 2, .starts = 3, .stops = 2, .sum_ticks = 99, .seq = 2});
  }
  for (std::uint8_t i = 0; i < counts.lines; ++i) {
    memprof_log_entry entry{};
    entry.done = entry.seq = 2u * (i + 1u);
    entry.kind = i % 3;
    entry.slot = 2;
    entry.text_bytes = 4;
    std::strcpy(entry.text, "line");
    put(bytes, entry);
  }
  return bytes;
}

std::vector<std::string> seeds() {
  return {seed({.slots = 4, .timers = 4, .lines = 3}), seed({.slots = 28, .timers = 4, .lines = 9}),
          seed({.slots = 0, .timers = 0, .lines = 0})};
}

const Add added("report", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
