// SPDX-License-Identifier: Apache-2.0
// Converts published values over time to records and back. Input may be anything: nothing is taken
// from an invalid message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "daemon/history/value_history.h"
#include "state/state.pb.h"

namespace memprofd {

// The position up to which a file contains the values.
struct WrittenValues {
  std::size_t series = 0;
  std::array<std::uint64_t, kHistoryTiers> ends_ns{};
  std::uint64_t next_line = 0;
};

// Adds to the record `out` the data that the file does not have yet. Calls added(bytes) with the
// approximate size after each piece; an error stops it.
absl::Status put_values(const ValueHistoryView& values, WrittenValues& written, state::Record& out,
                        const std::function<absl::Status(std::size_t)>& added);

// Accepts the records in their order.
class StoredValues {
 public:
  void add(const state::Record& record);
  // Null if there are no values.
  ValueHistoryViewPtr view() const;

 private:
  void add_series(const state::ValueSeries& message);
  void add_window(const state::ValueWindow& message);
  void add_line(const state::ValueLine& message);

  ValueHistoryView view_;
};

}  // namespace memprofd
