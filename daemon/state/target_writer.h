// SPDX-License-Identifier: Apache-2.0
// Stores one target in a file. New data of each snapshot is appended, and the file is rewritten,
// beside the old one, once it has grown to twice its contents.
//
//   write 1    everything: callstacks, classes, names, windows, counts          (first moment)
//   write 2    new callstacks and names, windows that ended, totals             (appended)
//   ...
//   write n    everything, into PATH.new, which is then renamed to PATH         (first moment)
//
// Only the first moment contains counts of classes; windows contain the additions. Nothing is
// flushed to the disk, because the file must survive the end of memprofd, not that of the machine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/history/snapshot.h"
#include "daemon/state/record_log.h"
#include "daemon/state/value_records.h"
#include "state/state.pb.h"

namespace memprofd {

// Not thread-safe.
class TargetWriter {
 public:
  // bytes: size of the existing file.
  explicit TargetWriter(std::string path, std::uint64_t bytes = 0)
      : path_(std::move(path)), file_bytes_(bytes) {}

  // Writes a snapshot. One that is not later than the previous one changes nothing, unless the
  // target's state has changed. After failures only every second, fourth, up to sixteenth write is
  // attempted, and the others fail, because each attempt may fill the disk. room: maximum size of
  // the file. After an error the file contains an earlier moment, if any. kResourceExhausted: room
  // is too small.
  absl::Status write(const ProfileSnapshot& snapshot, std::uint64_t room);
  std::uint64_t bytes() const { return file_bytes_; }
  // Attempts the next write even after failures, because there may be room now.
  void try_again() { left_out_ = 0; }
  // Removes the file.
  void remove();

 private:
  // The position up to which the file is written.
  struct Written {
    std::uint64_t attached_ns = 0;
    std::shared_ptr<Symbolizer> symbolizer;
    std::uint64_t newest_ns = 0;
    TargetState state{};
    bool is_asked = false;
    std::array<std::uint64_t, kHistoryTiers> ends_ns{};
    std::vector<bool> callstacks;
    std::vector<std::uint64_t> events;  // of each class, in samples; 0: not in the file
    absl::flat_hash_set<std::uint32_t> frames;
    absl::flat_hash_map<std::uint32_t, std::uint32_t> locations;  // their numbers in the file
    WrittenValues values;
    std::uint64_t first_bytes = 0;  // size of the first moment
  };

  bool is_news(const ProfileSnapshot& snapshot) const;
  bool can_append(const ProfileSnapshot& snapshot) const;
  absl::Status write_now(const ProfileSnapshot& snapshot, std::uint64_t room);
  absl::Status write_compacted(const ProfileSnapshot& snapshot, std::uint64_t room);
  absl::Status put(const ProfileSnapshot& snapshot, bool first);
  absl::Status put_rows(const ProfileSnapshot& snapshot);
  void put_callstack_of(const ProfileRow& row, Symbolizer& symbolizer);
  void put_frame(Symbolizer& symbolizer, std::uint64_t address, std::int32_t alloc_idx);
  void put_exact(const ProfileRow& row);
  absl::Status put_windows(const HistoryView& history);
  absl::Status put_counts(const ProfileSnapshot& snapshot);
  void put_last(const ProfileSnapshot& snapshot);
  // Appends the collected data once it is large.
  absl::Status added(std::size_t bytes);
  absl::Status flush();

  std::string path_;
  std::uint64_t file_bytes_;
  std::optional<RecordLog> log_;  // unset: the file must be rewritten
  Written written_;
  absl::Status failure_;
  int failures_ = 0;  // consecutive failures
  int left_out_ = 0;  // writes that are still to be skipped
  state::Record record_;
  std::size_t record_bytes_ = 0;  // about
};

}  // namespace memprofd
