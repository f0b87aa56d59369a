// SPDX-License-Identifier: Apache-2.0
// Assertions of Memprof_check in the memory of a copy. Input: the address of the registry, the
// time, then regions of memory (fuzz_memory.h).
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/heapdump/assertion_marks.h"
#include "daemon/snapshot/mark_arrays.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kNow = 1'000'000, kNil = 1, kNone = 0x5008;
constexpr std::uint64_t kMaxReads = 20'000;

bool read(std::string_view bytes) {
  Input input(bytes);
  const auto registry = input.take<std::uint64_t>();
  const auto now_ns = input.take<std::uint64_t>();
  const FuzzMemory memory(input, kMaxReads);
  const FoundAssertions found = read_assertions(memory, registry, now_ns);
  require(found.assertions.size() <= MEMPROF_VALUES_SLOTS, "more assertions than slots");
  require(found.marks.size() <= kMaxAssertionMarks, "too many marks");
  for (const HeapAssertion& one : found.assertions) {
    require(one.name.size() <= 4 * MEMPROF_SLOT_NAME, "a name that is too long");
    require(one.begin_age_ns <= now_ns && one.end_age_ns <= now_ns, "older than the clock");
  }
  for (const FoundMark& mark : found.marks) {
    require(mark.assertion < found.assertions.size(), "a mark of no assertion");
    require(may_be_block(mark.value), "a mark of what is no block");
  }
  return !found.marks.empty();
}

// A store with one weak array of two marks.
std::uint64_t put_marks(FakeMemory& memory, std::uint64_t beside) {
  const std::uint64_t one = memory.put_block(252, {0}), other = memory.put_block(252, {0});
  const std::uint64_t weak = memory.put_block(251, {kNil, kNone, one, beside, other, kNone});
  const std::uint64_t store = memory.put_block(0, {memory.put_block(0, {weak}), 7});
  return memory.put_block(0, {memory.put_block(0, {memory.put_block(0, {store, kNil})}), 9});
}

std::string seed(memprof_slot_kind kind, std::uint64_t beside) {
  FakeMemory memory{0x10000};
  memprof_slot slot{};
  slot.kind = kind;
  slot.root = put_marks(memory, beside);
  slot.number = kNone;
  std::strcpy(slot.name, "session");
  const std::uint64_t registry = memory.end();
  memprof_values_head head{};
  head.magic = MEMPROF_VALUES_MAGIC;
  head.abi = MEMPROF_VALUES_ABI;
  head.slot_bytes = sizeof slot;
  head.slots_used = 1;
  memory.put(head);
  while (memory.end() < registry + offsetof(memprof_values, slots)) memory.put(std::byte{0});
  memory.put(slot);
  std::string bytes;
  put(bytes, registry);
  put(bytes, kNow);
  put_region(bytes, memory);
  return bytes;
}

std::vector<std::string> seeds() {
  constexpr std::uint64_t kDue = 1000 << 1 | 1;
  return {seed(MEMPROF_SLOT_UNREACHABLE, kDue), seed(MEMPROF_SLOT_DIES_BEFORE, kNone)};
}

const Add added("assertions", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
