// SPDX-License-Identifier: Apache-2.0
// memprofctl why: shows what keeps the memory of a site alive in a running program.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/run_options.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

struct WhyOptions {
  std::string site;              // a pattern
  std::string max_pause;         // "50ms"; empty: the daemon's default
  bool no_daemon = false;        // this process samples and copies the program
  std::string duration = "10s";  // of the sampling, without memprofd
  std::vector<std::string> cmt;  // more places with types of the source
  std::size_t limit = kShownRows;
};

// Checks the pattern first, so that a misspelt site does not pause the program.
absl::Status check_lives(Client& client, OwnHeap* own, int pid, const std::string& pattern,
                         const std::string& list_sites) {
  const pb::ListSitesRequest request = live_sites_request(pid, pattern);
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response,
                   own == nullptr ? client.list_sites(request)
                                  : ask_source(*own->sampled())->list_sites(request));
  return check_live_sites(response, pattern, list_sites);
}

absl::Status run_why(const Options& options, const WhyOptions& own) {
  RETURN_IF_ERROR(check_site_pattern(own.site));
  Interrupt interrupt;
  ASSIGN_OR_RETURN(const double seconds, parse_duration(own.duration));
  Client client(options.endpoint);
  HeapTaking taking(client, own.no_daemon);
  interrupt.on_signal([&taking] { taking.interrupt(); });
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request, taking.request(options.pid, own.max_pause));
  RETURN_IF_ERROR(taking.begin(options.pid, kRunRate));
  if (taking.own() != nullptr) {
    const Progress progress(absl::StrCat("sampling pid ", options.pid));
    RETURN_IF_ERROR(taking.own()->sample(
        std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds))));
  }
  const int pid = request.snapshot().pid();
  const std::string list_sites = own.no_daemon ? absl::StrCat("memprofctl run --pid ", pid)
                                               : options.endpoint.command("sites");
  RETURN_IF_ERROR(check_lives(client, taking.own(), pid, own.site, list_sites));
  ASSIGN_OR_RETURN(HeapImage image, taking.take_image(request, own.cmt, site_frame(options)));
  join_threads(image);
  return answer_why(image,
                    {.site = own.site,
                     .source = absl::StrCat("the snapshot of pid ", pid),
                     .list_sites = list_sites},
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
  CLI::Option* no_daemon = add_no_daemon(app, own.no_daemon);
  app.add_option("--for", own.duration,
                 "With --no-daemon: sample for DURATION first, and show blocks allocated since")
      ->type_name("DURATION")
      ->capture_default_str()
      ->needs(no_daemon);
  add_cmt(app, own.cmt);
  add_heap_view(app, options, own.limit);
}

}  // namespace memprofd::ctl
