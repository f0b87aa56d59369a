// SPDX-License-Identifier: Apache-2.0
// memprofctl why: shows what keeps the memory of a site alive in a running program.
#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

struct WhyOptions {
  std::string site;              // a pattern
  std::string max_pause;         // "50ms"; empty: the daemon's default
  std::vector<std::string> cmt;  // more places with types of the source
  std::size_t limit = kShownRows;
};

// Checks the pattern first, so that a misspelt site does not pause the program.
absl::Status check_lives(Client& client, int pid, const std::string& pattern) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response,
                   client.list_sites(live_sites_request(pid, pattern)));
  return check_live_sites(response, pattern);
}

absl::Status run_why(const Options& options, const WhyOptions& own) {
  RETURN_IF_ERROR(check_site_pattern(own.site));
  Interrupt interrupt;
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request,
                   snapshot_request(options.pid, own.max_pause, client));
  RETURN_IF_ERROR(check_lives(client, request.snapshot().pid(), own.site));
  ASSIGN_OR_RETURN(HeapImage image, take_image(client, request, own.cmt, site_frame(options)));
  join_threads(image);
  return answer_why(image,
                    {.site = own.site,
                     .source = absl::StrCat("the snapshot of pid ", request.snapshot().pid()),
                     .list_sites = options.endpoint.command("sites")},
                    options, own.limit);
}

}  // namespace

void add_why(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  WhyOptions& own = line.set_up(
      app, "Show what keeps the blocks of an allocation site alive in a running process", &run_why);
  add_site(app, options, own.site);
  add_snapshot_pid(app, options.pid, "--pid");
  add_max_pause(app, own.max_pause);
  add_cmt(app, own.cmt);
  add_heap_view(app, options, own.limit);
}

}  // namespace memprofd::ctl
