// SPDX-License-Identifier: Apache-2.0
// Values of a program's memory, some at once and all of them twice, so that what the program has
// changed in between shows. Whether the collector has moved anything meanwhile is the caller's to
// ask (heap_clock.h).
//
// What a pointer leads to may lie on a page that was read for another value, before the pointer
// was: then it is what stood there before. So of values that are read together what pointers lead
// to counts as changed, too, when it is another one at the second look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target_memory.h"
#include "daemon/values/footprint.h"
#include "daemon/values/page_cache.h"
#include "daemon/values/report.h"
#include "daemon/values/value.h"
#include "daemon/values/value_reader.h"

namespace memprofd {

// What was found when a value was read, for who reads it again.
struct KnownValue {
  Footprint footprint;
  std::unique_ptr<const Value> value;  // null: nobody will ask for it
};

// A word of a module, or of the registry.
struct ValueSlot {
  static constexpr std::size_t kReported = static_cast<std::size_t>(-1);
  std::size_t module = 0;  // or kReported: field is the place in Report::all
  std::uint32_t field = 0;
  std::uint64_t address = 0;
  KnownValue* known = nullptr;  // null: nobody reads it again
};

// What it means, if it is asked for.
struct ReadValue {
  bool is_constant = false;
  bool is_torn = false;  // its parts do not fit together
  bool differs = false;  // when it is read again at once
  Value value;
  Footprint footprint;
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

  // Whether the words of each are not as they are known: of the others nothing has to be read. The
  // collector does not matter: what is made of the same words is the same value.
  std::vector<bool> find_changed(std::span<const ValueSlot> slots);

  // What one question may take.
  struct Bounds {
    std::size_t graph_nodes = 0;
    std::size_t blocks_of_tag = 0;
  };
  // all: where reported slots are.
  std::vector<ReadValue> read_twice(std::span<const ValueSlot> batch,
                                    const std::vector<Reported>& all, const Bounds& bounds);

  // The same in one question, with other pieces before and after, so that hardly anything comes in
  // between. Nothing: a value is not known, has other parts than it had, or these are not there.
  std::optional<std::vector<ReadValue>> peek_twice(std::span<const ValueSlot> batch,
                                                   const std::vector<Reported>& all,
                                                   const Bounds& bounds,
                                                   std::span<const MemoryPiece> before,
                                                   std::span<const MemoryPiece> after);

  // What read_twice() has met: more pages than there is room for; other memory than is mapped was
  // asked for.
  bool full() const { return pages_.full(); }
  bool missed() const { return pages_.missed(); }
  // Memory did not answer, at the first look or the second.
  bool was_late() const { return was_late_ || pages_.was_late(); }

 private:
  void fetch_known(std::span<const ValueSlot> slots) const;
  // In few steps: all pages that they want next come together.
  void look(std::span<const ValueSlot> batch, const std::vector<Reported>& all,
            const Bounds& bounds, std::vector<ReadValue>& read);
  ReadValue read_slot(const ValueSlot& slot, const std::vector<Reported>& all,
                      const Bounds& bounds) const;
  ReadValue read_slot(const ValueSlot& slot, const std::vector<Reported>& all, const Bounds& bounds,
                      const RecordingReader& memory) const;
  ReadValue read_reported(const Reported& one, std::uint64_t word, const Bounds& bounds,
                          const RecordingReader& memory) const;
  Value read_value(ValueReader& reader, std::uint64_t word, const Bounds& bounds) const;

  PageCache pages_;
  bool was_late_ = false;  // at the first look
  const FunctionNames& names_;
  const Options options_;
};

}  // namespace memprofd
