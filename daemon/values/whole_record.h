// SPDX-License-Identifier: Apache-2.0
// Reads records of several words that a program writes meanwhile. The words `done` and `seq`
// (memprof_values_abi.h) enclose a record: it is whole if it was read in the order of addresses and
// both are equal and even. A copy by one instruction has no such order, because the processor may
// take a later cache line first. So a record larger than one cache line is read piece by piece, in
// order, or twice with the same result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target_memory.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

template <typename Record>
bool is_whole(const Record& record) {
  return record.done == record.seq && record.seq % 2 == 0;
}

template <typename Record>
absl::Status read_all(const MemoryReader& memory, std::uint64_t address,
                      std::vector<Record>& records) {
  return records.empty() ? absl::OkStatus()
                         : memory.read(address, std::as_writable_bytes(std::span(records)));
}

// Reads the records twice. Returns for each whether both readings were the same.
template <typename Record>
absl::StatusOr<std::vector<bool>> read_twice(const MemoryReader& memory, std::uint64_t address,
                                             std::vector<Record>& records) {
  std::vector<Record> again(records.size());
  RETURN_IF_ERROR(read_all(memory, address, records));
  RETURN_IF_ERROR(read_all(memory, address, again));
  std::vector<bool> is_same;
  for (std::size_t i = 0; i < records.size(); ++i) {
    is_same.push_back(std::memcmp(&records[i], &again[i], sizeof(Record)) == 0);
  }
  return is_same;
}

// Reads in pieces, in order. Returns whether the record is consistent; kOutOfRange: no record.
template <typename Record>
absl::StatusOr<bool> read_in_order(const MemoryReader& memory, std::uint64_t address,
                                   Record& record) {
  std::uint64_t done = 0, seq = 1;
  const std::array<MemoryPiece, 3> pieces = {
      {{address + offsetof(Record, done), std::as_writable_bytes(std::span(&done, 1))},
       {address, std::as_writable_bytes(std::span(&record, 1))},
       {address + offsetof(Record, seq), std::as_writable_bytes(std::span(&seq, 1))}}};
  ASSIGN_OR_RETURN(const std::size_t read, peek_pieces(memory, pieces));
  if (read < pieces.size()) return absl::OutOfRangeError("a record of the registry is not mapped");
  return done == seq && seq % 2 == 0;
}

}  // namespace memprofd
