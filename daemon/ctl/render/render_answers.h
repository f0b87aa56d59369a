// SPDX-License-Identifier: Apache-2.0
// Answers to questions beyond sites, as text for people.
#pragma once

#include <string>

#include "daemon/ctl/client.h"
#include "daemon/ctl/render/render_table.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// request: the question; it determines units and names.
std::string diff_text(const pb::DiffSitesResponse& response, const pb::DiffSitesRequest& request,
                      const Style& style);
std::string callers_text(const pb::ListCallersResponse& response,
                         const pb::ListCallersRequest& request, const Style& style);
std::string history_text(const pb::GetHistoryResponse& response,
                         const pb::GetHistoryRequest& request, const Style& style);
// Growth between two snapshots; empty if there were none.
std::string containers_text(const pb::ListLeaksResponse& response);
std::string leaks_text(const pb::ListLeaksResponse& response, pb::GroupBy group_by);
// Suggests the next question about the first leak: a line with a shell command. Empty if there is
// none, or it has no function.
std::string why_hint(const pb::ListLeaksResponse& response, int pid, const Endpoint& endpoint);

}  // namespace memprofd::ctl
