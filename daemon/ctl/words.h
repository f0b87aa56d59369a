// How single facts are put into words; every rendering uses these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

std::string_view level_word(pb::FindingLevel level);       // ok, warning, problem
std::string_view order_word(pb::SiteOrder order);          // live, allocated, ...
std::string estimate_words(const pb::Estimate& estimate);  // "12.3 MiB ± 0.4"
// "server.ml:42", "server.ml", "" when the file is not known.
std::string location_words(const std::string& file, std::uint32_t line);
std::string losses_words(const pb::Target& target);  // "none", "12 events (kernel/ring_full 12)"
std::string utc_words(std::int64_t unix_ns);         // "2026-01-31 12:00:00 UTC"
// Median lifetime; "-" when nothing was deallocated.
std::string median_words(const pb::Lifetime& lifetime);

}  // namespace memprofd::ctl
