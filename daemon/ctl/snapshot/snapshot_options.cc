// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/snapshot_options.h"

#include <CLI/CLI.hpp>

#include "daemon/ctl/query_options.h"

namespace memprofd::ctl {

void add_heap_file(CLI::App& app, std::string& file, std::vector<std::string>& cmt) {
  app.add_option("file", file, "Heap snapshot to read")->type_name("FILE")->required();
  add_cmt(app, cmt);
}

void add_cmt(CLI::App& app, std::vector<std::string>& cmt) {
  app.add_option(
         "--cmt", cmt,
         "Also look for source types in this .cmt or .cmi file, or below this folder; repeatable")
      ->type_name("PATH")
      ->allow_extra_args(false);
}

void add_heap_view(CLI::App& app, Options& options, std::size_t& limit) {
  app.add_option("-n,--limit", limit, "Show at most N rows, in trees N per parent (0: all)")
      ->capture_default_str();
  add_out(app, options.out);
  add_format(app, options.format, {kTable, kJson});
}

CLI::Option* add_site(CLI::App& app, Options& options, std::string& site) {
  add_frames(app, options.query);
  return app
      .add_option("site", site, "Select blocks whose callstack contains this function or file:line")
      ->type_name("REGEX")
      ->required();
}

void add_max_pause(CLI::App& app, std::string& max_pause) {
  app.add_option("--max-pause", max_pause,
                 "Refuse if the process would be paused for longer (default: 50ms)")
      ->type_name("DURATION");
}

CLI::Option* add_no_daemon(CLI::App& app, bool& no_daemon) {
  return app.add_flag("--no-daemon", no_daemon,
                      "Access a process of the same user without memprofd or root; needs --pid");
}

void add_snapshot_pid(CLI::App& app, int& pid, const char* names) {
  app.add_option(names, pid, "Process ID; may be omitted when there is only one target");
}

}  // namespace memprofd::ctl
