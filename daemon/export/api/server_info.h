// SPDX-License-Identifier: Apache-2.0
// Version and limits of this memprofd, for gRPC and HTTP.
#pragma once

#include <sys/utsname.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/export/api/answer_pages.h"
#include "daemon/export/api/query_service.h"
#include "daemon/model/control.h"
#include "daemon/util/clock.h"
#include "daemon/util/utf8.h"
#include "daemon/util/version.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

struct ServerFacts {
  ProgramVersion version = program_version();
  std::uint64_t started_ns = realtime_ns();  // CLOCK_REALTIME
  bool kernel_capture = false;
  double sampling_rate = 0;  // samples per word; this and the next two are defaults
  double max_overhead = 0;
  AttachMode mode = AttachMode::kDefault;
  bool http_control = false;
  bool traces = false;
  std::vector<std::string> rules;  // the rules for programs: "--name shop-*"
  std::string state_directory;     // empty: none
  std::uint32_t max_streams = 0;   // both of gRPC
  std::uint32_t max_connection_calls = 0;
};

// Both enums have the same numbers.
static_assert(static_cast<int>(AttachMode::kDefault) == ::memprof::v1::ATTACH_MODE_UNSPECIFIED &&
              static_cast<int>(AttachMode::kAuto) == ::memprof::v1::ATTACH_MODE_AUTO &&
              static_cast<int>(AttachMode::kAgent) == ::memprof::v1::ATTACH_MODE_AGENT &&
              static_cast<int>(AttachMode::kObserve) == ::memprof::v1::ATTACH_MODE_OBSERVE);

inline void fill_limits(const ServerFacts& facts, ::memprof::v1::ServerLimits& out) {
  out.set_standard_page_rows(PageLimits::kStandardRows);
  out.set_max_page_rows(PageLimits::kMaxRows);
  out.set_max_page_bytes(PageLimits::kMaxBytes);
  out.set_kept_answers_bytes(AnswerPages::kMaxBytes);
  out.set_kept_answer_seconds(static_cast<double>(AnswerPages::kMaxAge.count()));
  out.set_max_piece_bytes(kProfilePieceBytes);
  out.set_max_streams(facts.max_streams);
  out.set_max_connection_calls(facts.max_connection_calls);
}

inline ::memprof::v1::GetServerInfoResponse server_info(const ServerFacts& facts) {
  ::memprof::v1::GetServerInfoResponse out;
  const std::uint64_t now_ns = realtime_ns();
  out.set_version(facts.version.version);
  out.set_revision(facts.version.revision);
  out.set_api_version(kApiVersion);
  out.set_started_unix_ns(static_cast<std::int64_t>(facts.started_ns));
  if (now_ns > facts.started_ns) {
    out.set_uptime_seconds(static_cast<double>(now_ns - facts.started_ns) / 1e9);
  }
  if (utsname system{}; ::uname(&system) == 0) out.set_kernel_release(system.release);
  out.set_kernel_capture(facts.kernel_capture);
  out.set_sampling_rate(facts.sampling_rate);
  out.set_max_overhead(facts.max_overhead);
  out.set_mode(static_cast<::memprof::v1::AttachMode>(facts.mode));
  out.set_control(facts.http_control);
  out.set_traces(facts.traces);
  for (const std::string& rule : facts.rules) out.add_rules(valid_utf8(rule));
  out.set_state_directory(valid_utf8(facts.state_directory));
  fill_limits(facts, *out.mutable_limits());
  return out;
}

}  // namespace memprofd
