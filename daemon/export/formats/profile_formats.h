// SPDX-License-Identifier: Apache-2.0
// The formats of profiles, one row each. The command line, the API and the page list them from
// here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/export/formats/recursion.h"
#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

struct RenderOptions {
  Measure measure = Measure::kLive;
  bool within_limits = false;  // pprof: stay within the limits of receivers, kReceiverLimits
  // Recursion in flame graphs and collapsed stacks; nothing: folded in flame graphs, full in
  // collapsed stacks.
  std::optional<Recursion> recursion = {};
};

struct ProfileFormatRow {
  ::memprof::v1::ProfileFormat proto;
  const char* word;   // word on the command line and in the API
  const char* label;  // in the page's menu; empty: not listed there
  const char* content_type;
  const char* extension;
  bool is_text;             // fit for a terminal
  bool has_several_values;  // contains all known measures, whichever was requested
  absl::StatusOr<std::string> (*render)(const std::vector<TargetProfile>&, const RenderOptions&);
};

std::span<const ProfileFormatRow> profile_formats();
// Returns the format of a message's enum; unspecified is pprof. Null: there is no such value.
const ProfileFormatRow* find_profile_format(::memprof::v1::ProfileFormat format);
// Finds a format by its word; null: there is no such word.
const ProfileFormatRow* find_profile_format(std::string_view word);

}  // namespace memprofd
