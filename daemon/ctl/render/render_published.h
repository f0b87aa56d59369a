// SPDX-License-Identifier: Apache-2.0
// Published values as text.
#pragma once

#include <string>

#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

// "requests{route=/a}"
std::string published_name(const ::memprof::v1::Reported& reported);
// "120 requests", "12 times, 3.4 s, mean 0.28 s, longest 1.2 s; 1 runs", "true", "0.5 MB, 3 s ago"
std::string published_text(const ::memprof::v1::Reported& reported);
// One line per domain: "domain 3" and its part of the value.
std::string domain_name(const ::memprof::v1::DomainShare& share);
std::string domain_text(const ::memprof::v1::Reported& reported,
                        const ::memprof::v1::DomainShare& share);
// "1.2 s ago  phase load begins"
std::string line_text(const ::memprof::v1::ReportedLine& line);

}  // namespace memprofd::ctl
