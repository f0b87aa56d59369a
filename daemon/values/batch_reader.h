// SPDX-License-Identifier: Apache-2.0
// Reads values of a program's memory, several at a time and all of them twice, so that changes by
// the program in between show. The caller checks whether the collector has moved anything meanwhile
// (heap_clock.h).
//
// The target of a pointer may lie on a page that was read for another value, before the pointer
// was: then its content is older. So among values that are read together, targets of pointers also
// count as changed if the second reading differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target_memory.h"
#include "daemon/values/page_cache.h"
#include "daemon/values/publication.h"
#include "daemon/values/read_set.h"
#include "daemon/values/value.h"
#include "daemon/values/value_reader.h"

namespace memprofd {

// Result of reading a value, for the next reading.
struct KnownValue {
  ReadSet read_set;
  std::unique_ptr<const Value> value;  // null: not needed
};

// A word of a module, or of the registry.
struct ValueSlot {
  static constexpr std::size_t kPublished = static_cast<std::size_t>(-1);
  std::size_t module = 0;  // or kPublished: field is the place in Report::all
  std::uint32_t field = 0;
  std::uint64_t address = 0;
  KnownValue* known = nullptr;  // null: not read again
};

// Meaning of the value, if requested.
struct ReadValue {
  bool is_constant = false;
  bool is_torn = false;  // its parts do not fit together
  bool differs = false;  // when it is read again at once
  Value value;
  ReadSet read_set;
};

class BatchReader {
 public:
  struct Options {
    bool with_constants = false;
    bool with_contents = false;
    bool with_graphs = false;
    AddressRange image;  // of the program's own code and data
  };
  // memory and names outlive it. Nothing can be read before set_mappings().
  BatchReader(const MemoryReader& memory, const FunctionNames& names, Options options)
      : pages_(memory), names_(names), options_(options) {}

  bool set_mappings(std::span<const Mapping> mappings) {
    return pages_.set_mappings(mappings, options_.image);
  }

  // Returns for each value whether its words have changed; only changed values must be read again.
  // Collections do not matter, because the same words represent the same value.
  std::vector<bool> find_changed(std::span<const ValueSlot> slots);

  // Limits of one question.
  struct Bounds {
    std::size_t graph_nodes = 0;
    std::size_t blocks_of_tag = 0;
  };
  // all: where reported slots are.
  std::vector<ReadValue> read_twice(std::span<const ValueSlot> batch,
                                    const std::vector<PublishedValue>& all, const Bounds& bounds);

  // Reads everything twice in one request, with other pieces before and after, to minimise the time
  // in between. Returns nullopt if a value is unknown, has other parts than before, or cannot be
  // read.
  std::optional<std::vector<ReadValue>> peek_twice(std::span<const ValueSlot> batch,
                                                   const std::vector<PublishedValue>& all,
                                                   const Bounds& bounds,
                                                   std::span<const MemoryPiece> before,
                                                   std::span<const MemoryPiece> after);

  // full(): read_twice() has used all pages. missed(): it needed memory that is not mapped.
  bool full() const { return pages_.full(); }
  bool missed() const { return pages_.missed(); }
  // True if memory did not respond to the first or the second read.
  bool was_late() const { return was_late_ || pages_.was_late(); }

 private:
  void fetch_known(std::span<const ValueSlot> slots) const;
  // Reads in few steps, by requesting all pages that the values need next together.
  void read_pass(std::span<const ValueSlot> batch, const std::vector<PublishedValue>& all,
                 const Bounds& bounds, std::vector<ReadValue>& read);
  ReadValue read_slot(const ValueSlot& slot, const std::vector<PublishedValue>& all,
                      const Bounds& bounds) const;
  ReadValue read_slot(const ValueSlot& slot, const std::vector<PublishedValue>& all,
                      const Bounds& bounds, const RecordingReader& memory) const;
  ReadValue read_published_values(const PublishedValue& one, std::uint64_t word,
                                  const Bounds& bounds, const RecordingReader& memory) const;
  Value read_value(ValueReader& reader, std::uint64_t word, const Bounds& bounds) const;

  PageCache pages_;
  bool was_late_ = false;  // at the first reading
  const FunctionNames& names_;
  const Options options_;
};

}  // namespace memprofd
