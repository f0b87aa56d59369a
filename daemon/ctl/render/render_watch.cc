// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_watch.h"

#include <fmt/core.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/render_published.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/ctl/render/text.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

std::string rate_text(std::int64_t hits, std::int64_t ns) {
  if (ns <= 0) return "";
  return fmt::format(", {:.3g} a second",
                     static_cast<double>(hits) / static_cast<double>(ns) * 1e9);
}

}  // namespace

std::string WatchedValues::update(const pb::ListValuesResponse& values, std::int64_t unix_ns) {
  // "2026-01-31 12:00:00 UTC"
  const std::string time = utc_text(unix_ns).substr(11, 8);
  std::string out;
  const auto show = [&](const std::string& name, Shown now) {
    const auto [it, is_new] = shown_.try_emplace(name);
    const Shown before = std::exchange(it->second, std::move(now));
    const Shown& after = it->second;
    if (!is_new && before.text == after.text) return;
    const std::string rate = is_new || before.hits == after.hits
                                 ? ""
                                 : rate_text(after.hits - before.hits, unix_ns - shown_ns_);
    absl::StrAppend(&out, time, "  ", name, "  ", after.text, rate, "\n");
  };
  for (const pb::Reported& one : values.reported()) {
    show(published_name(one), {published_text(one), one.hits()});
  }
  for (const pb::NamedValue& one : values.values()) {
    show(printable(name_of(one)), {value_text(one.value()), 0});
  }
  shown_ns_ = unix_ns;
  return out;
}

}  // namespace memprofd::ctl
