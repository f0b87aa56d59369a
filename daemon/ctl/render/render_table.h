// SPDX-License-Identifier: Apache-2.0
// Answers as text for people. Names from targets are made printable.
#pragma once

#include <string>

#include "daemon/ctl/client.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// For a terminal: bold titles, colours, and lines truncated at its width.
struct Style {
  bool color = false;
  std::size_t width = 0;  // columns; 0: do not truncate
};

// All texts end in a newline.
std::string targets_table(const pb::ListTargetsResponse& response, const Style& style,
                          const Endpoint& endpoint = {});
// The same without targets that have ended, and their number. If none runs, all of them.
std::string running_targets_text(pb::ListTargetsResponse response, const Style& style,
                                 const Endpoint& endpoint = {});
// All OCaml programs that run, and why each is or is not profiled.
std::string discovered_table(const pb::ListTargetsResponse& response, const Style& style);
// Ended targets: when, how, and their live memory then.
std::string ended_table(const pb::ListTargetsResponse& response, std::int64_t now_unix_ns,
                        const Style& style);
std::string target_line(const pb::Target& target);
// The answer to an attach: the target, and where to look if it is not sampled yet.
std::string attach_text(const pb::AttachResponse& response, const Endpoint& endpoint = {});
// State, message and next step of a target that is not sampled; empty if it is.
std::string not_sampled_text(const pb::Target& target, const Endpoint& endpoint = {});
// One line with the reason for a long time without samples; empty if there are samples.
std::string no_samples_hint(const pb::Target& target);
// Version, features and limits of a memprofd.
std::string info_text(const pb::GetServerInfoResponse& info);
std::string sites_table(const pb::ListSitesResponse& response, pb::GroupBy group_by,
                        bool with_callstacks, const Style& style);
std::string findings_text(const pb::DiagnoseResponse& response, const Style& style);

}  // namespace memprofd::ctl
