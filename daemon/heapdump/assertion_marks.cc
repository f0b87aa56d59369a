// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/assertion_marks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/snapshot/assertion_slots.h"
#include "daemon/snapshot/mark_arrays.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

class AssertionReader {
 public:
  AssertionReader(const MemoryReader& memory, std::uint64_t now_ns)
      : memory_(memory), now_ns_(now_ns) {}

  void add(AssertionKind kind, const memprof_slot& slot) {
    HeapAssertion& assertion = found_.assertions.emplace_back();
    assertion.kind = kind;
    assertion.name = valid_utf8(std::string(slot.name, strnlen(slot.name, sizeof slot.name)));
    if (kind == AssertionKind::kRegion) {
      assertion.max_bytes = slot.number;
      assertion.begin_age_ns = age_of(slot.root);
      assertion.end_age_ns = age_of(slot.changed_ns);
      return;
    }
    const MarkArrays arrays =
        read_mark_arrays(memory_, slot.root, reads_left_, [&](std::span<const std::uint64_t> all) {
          for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
            if (all[i] != slot.number) add_mark(assertion, all[i], all[i + 1], slot.number);
          }
          return true;
        });
    assertion.is_whole &= arrays.are_marks && arrays.are_whole;
  }

  FoundAssertions take() { return std::move(found_); }

 private:
  std::uint64_t age_of(std::uint64_t ns) const { return now_ns_ - std::min(ns, now_ns_); }

  void add_mark(HeapAssertion& assertion, std::uint64_t value, std::uint64_t beside,
                std::uint64_t none) {
    if (!may_be_block(value)) return;
    FoundMark mark{.assertion = static_cast<std::uint32_t>(found_.assertions.size() - 1),
                   .value = value};
    if (assertion.kind == AssertionKind::kUnreachable) {
      // The moment is an OCaml integer.
      if (beside >> 1 > now_ns_) {
        ++assertion.not_due;
        return;
      }
    } else {
      mark.until =
          beside == none ? AssertionMark::Until::kOtherIsGone : AssertionMark::Until::kOther;
      mark.other = beside;
    }
    if (found_.marks.size() == kMaxAssertionMarks) {
      ++assertion.unchecked;
      return;
    }
    found_.marks.push_back(mark);
  }

  const MemoryReader& memory_;
  const std::uint64_t now_ns_;
  std::uint64_t reads_left_ = kMaxAssertionReads;
  FoundAssertions found_;
};

}  // namespace

FoundAssertions read_assertions(const MemoryReader& memory, std::uint64_t registry,
                                std::uint64_t now_ns) {
  memprof_values_head head{};
  if (registry == 0 || !memory.read_value(registry, head).ok() ||
      head.magic != MEMPROF_VALUES_MAGIC || head.abi != MEMPROF_VALUES_ABI ||
      head.slot_bytes != sizeof(memprof_slot)) {
    return {};
  }
  AssertionReader reader(memory, now_ns);
  for (std::uint32_t i = 0; i < std::min(head.slots_used, MEMPROF_VALUES_SLOTS); ++i) {
    memprof_slot slot{};
    if (!memory.read_value(registry + offsetof(memprof_values, slots) + i * sizeof slot, slot)
             .ok()) {
      break;
    }
    const auto kind = assertion_kind_of(slot.kind);
    if (kind && slot.root != 0) reader.add(*kind, slot);
  }
  return reader.take();
}

}  // namespace memprofd
