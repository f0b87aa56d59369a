// SPDX-License-Identifier: Apache-2.0
// State between readings of the values of one program, so that a reading costs only what has
// changed: the words of each value, and what it was made of.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/values/batch_reader.h"
#include "daemon/values/publication.h"
#include "daemon/values/value_program.h"

namespace memprofd {

// Only one thread may use it at a time.
class ValueWatch {
 public:
  // Forgets everything if the program is another one.
  void begin(std::shared_ptr<const ValueProgram::Layout> found);

  // False until the module values to watch have been chosen.
  bool has_slots() const { return has_slots_; }
  const std::vector<ValueSlot>& slots() const { return slots_; }
  void set_slots(std::vector<ValueSlot> slots);
  // True if the slot is among the first `limit`; others are omitted from now on.
  bool may_report(const ValueSlot& slot, std::size_t limit);
  std::uint64_t left_out() const { return left_out_.size(); }

  // State of the published value at that address.
  KnownValue* known_at(std::uint64_t address);

  // The last search's result; null: it is time to search again.
  std::shared_ptr<ValueProgram> program() const;
  // kNotFound: the program is another than the one that was watched.
  absl::Status set_program(std::shared_ptr<ValueProgram> program);

  // Null: they must be read.
  const std::vector<Mapping>* mappings() const;
  void set_mappings(std::vector<Mapping> mappings);

  // Keeps only values that have changed since they were reported; all the first time.
  void leave_changed(Publication& report);

 private:
  using Clock = std::chrono::steady_clock;
  // The list of values is searched again after this time, even if nothing is missing.
  static constexpr std::chrono::seconds kLayoutKept{1};

  std::shared_ptr<ValueProgram> program_;
  Clock::time_point program_at_{};
  std::shared_ptr<const ValueProgram::Layout> found_;  // of the program that all below is of
  bool has_slots_ = false;
  std::vector<ValueSlot> slots_;
  absl::flat_hash_set<std::uint64_t> fields_reported_;  // by address
  absl::flat_hash_set<std::uint64_t> left_out_;         // by address
  std::vector<KnownValue> known_fields_;                // of slots_
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<KnownValue>> known_reported_;
  std::vector<Mapping> mappings_;
  Clock::time_point mapped_at_{};
  absl::flat_hash_map<std::uint32_t, PublishedValue> reported_;  // by slot
  std::uint64_t next_line_ = 0;
};

}  // namespace memprofd
