// SPDX-License-Identifier: Apache-2.0
// Watched values: the changes since the previous reading, one line each.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

class WatchedValues {
 public:
  // "12:00:05  requests{route=/a}  1234 requests, 12.5 a second" for each change since the previous
  // call. The first call lists everything; the text is empty if nothing has changed. values: at
  // least those that have changed. unix_ns: time of the answer.
  std::string update(const ::memprof::v1::ListValuesResponse& values, std::int64_t unix_ns);

 private:
  struct Shown {
    std::string text;
    std::int64_t hits = 0;  // of a point
  };

  std::int64_t shown_ns_ = 0;
  std::map<std::string, Shown> shown_;  // by name
};

}  // namespace memprofd::ctl
