// SPDX-License-Identifier: Apache-2.0
// Events of a stream as lines.
#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

class EventLines {
 public:
  // json: one object per line.
  explicit EventLines(bool json) : json_(json) {}

  // One line for each of the message's first `count` events, after a line about losses.
  std::string lines(const ::memprof::v1::StreamEventsResponse& response, std::size_t count);

 private:
  std::string text_line(const ::memprof::v1::SampleEvent& event) const;
  std::string json_line(const ::memprof::v1::SampleEvent& event) const;

  const bool json_;
  absl::flat_hash_map<std::uint64_t, ::memprof::v1::EventCallstack> callstacks_;  // by id
};

}  // namespace memprofd::ctl
