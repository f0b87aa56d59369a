// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/profile_formats.h"

#include <algorithm>
#include <array>

#include "daemon/export/formats/flame_html.h"
#include "daemon/export/formats/flame_json.h"
#include "daemon/export/formats/flat_profiles.h"
#include "daemon/export/formats/pprof.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using Profiles = std::vector<TargetProfile>;

absl::StatusOr<std::string> pprof(const Profiles& profiles, const RenderOptions& options) {
  const Measure measure = options.measure;
  const bool allocs = measure == Measure::kAllocated || measure == Measure::kAllocatedObjects;
  return pprof_profile(profiles, allocs ? PprofKind::kAllocs : PprofKind::kHeap,
                       options.within_limits ? kReceiverLimits : PprofLimits());
}
absl::StatusOr<std::string> collapsed(const Profiles& profiles, const RenderOptions& options) {
  return collapsed_stacks(profiles, options.measure, options.recursion.value_or(Recursion::kFull));
}
absl::StatusOr<std::string> speedscope(const Profiles& profiles, const RenderOptions&) {
  return speedscope_json(profiles);
}
absl::StatusOr<std::string> flame(const Profiles& profiles, const RenderOptions& options) {
  return flame_json(profiles, options.recursion.value_or(Recursion::kFolded));
}
absl::StatusOr<std::string> html(const Profiles& profiles, const RenderOptions& options) {
  ASSIGN_OR_RETURN(const std::string json, flame(profiles, options));
  return flame_html(json);
}

constexpr std::array kFormats = std::to_array<ProfileFormatRow>({
    {.proto = pb::PROFILE_FORMAT_PPROF,
     .word = "pprof",
     .label = "Profile for pprof, Parca, Pyroscope",
     .content_type = "application/octet-stream",
     .extension = ".pb.gz",
     .is_text = false,
     .has_several_values = false,
     .render = pprof},
    {.proto = pb::PROFILE_FORMAT_COLLAPSED,
     .word = "collapsed",
     .label = "Collapsed stacks",
     .content_type = "text/plain; charset=utf-8",
     .extension = ".collapsed",
     .is_text = true,
     .has_several_values = false,
     .render = collapsed},
    {.proto = pb::PROFILE_FORMAT_SPEEDSCOPE,
     .word = "speedscope",
     .label = "Profile for speedscope",
     .content_type = "application/json",
     .extension = ".speedscope.json",
     .is_text = false,
     .has_several_values = true,
     .render = speedscope},
    {.proto = pb::PROFILE_FORMAT_HTML,
     .word = "html",
     .label = "Flame graph as one HTML file",
     .content_type = "text/html; charset=utf-8",
     .extension = ".html",
     .is_text = false,
     .has_several_values = true,
     .render = html},
    {.proto = pb::PROFILE_FORMAT_FLAME_JSON,
     .word = "flame_json",
     .label = "",
     .content_type = "application/json",
     .extension = ".flame.json",
     .is_text = false,
     .has_several_values = true,
     .render = flame},
});

constexpr bool all_values_have_rows() {
  for (int format = pb::ProfileFormat_MIN + 1; format <= pb::ProfileFormat_MAX; ++format) {
    if (std::count_if(kFormats.begin(), kFormats.end(),
                      [&](const ProfileFormatRow& row) { return row.proto == format; }) != 1) {
      return false;
    }
  }
  return true;
}
static_assert(all_values_have_rows(), "each value of ProfileFormat has one row in kFormats");

template <typename Test>
const ProfileFormatRow* find(Test test) {
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), test);
  return row == kFormats.end() ? nullptr : &*row;
}

}  // namespace

std::span<const ProfileFormatRow> profile_formats() { return kFormats; }

const ProfileFormatRow* find_profile_format(pb::ProfileFormat format) {
  if (format == pb::PROFILE_FORMAT_UNSPECIFIED) format = pb::PROFILE_FORMAT_PPROF;
  return find([&](const ProfileFormatRow& row) { return row.proto == format; });
}

const ProfileFormatRow* find_profile_format(std::string_view word) {
  return find([&](const ProfileFormatRow& row) { return *row.label != '\0' && row.word == word; });
}

}  // namespace memprofd
