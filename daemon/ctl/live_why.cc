// SPDX-License-Identifier: Apache-2.0
// memprofctl why: shows what keeps the memory of a site alive in a running program.
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

// Checks the pattern first, so that a misspelt site does not pause the program.
absl::Status check_lives(Client& client, int pid, const std::string& pattern) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response,
                   client.list_sites(live_sites_request(pid, pattern)));
  return check_live_sites(response, pattern);
}

}  // namespace

absl::Status run_why(const Options& options) {
  RETURN_IF_ERROR(check_site_pattern(options.heap_site));
  Interrupt interrupt;
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request, snapshot_request(options, client));
  RETURN_IF_ERROR(check_lives(client, request.snapshot().pid(), options.heap_site));
  ASSIGN_OR_RETURN(HeapImage image, take_image(client, request, options));
  join_threads(image);
  return answer_why(image, options, absl::StrCat("the snapshot of pid ", request.snapshot().pid()),
                    options.endpoint.command("sites"));
}

}  // namespace memprofd::ctl
