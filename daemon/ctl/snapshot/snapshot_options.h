// SPDX-License-Identifier: Apache-2.0
// Options that several commands about heap snapshots share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/snapshot/snapshot_view.h"

namespace CLI {
class App;  // its header takes seconds to compile
class Option;
}  // namespace CLI

namespace memprofd::ctl {

// Options of the questions about the file of a snapshot.
struct HeapFileOptions {
  std::string file;
  std::vector<std::string> cmt;  // more places with types of the source
  std::size_t limit = kShownRows;
};

// FILE and --cmt.
void add_heap_file(CLI::App& app, std::string& file, std::vector<std::string>& cmt);
// --cmt alone.
void add_cmt(CLI::App& app, std::vector<std::string>& cmt);
// --limit, --out and --output of an answer. limit: rows, in trees below each row.
void add_heap_view(CLI::App& app, Options& options, std::size_t& limit);
// SITE, a pattern, and --frames.
CLI::Option* add_site(CLI::App& app, Options& options, std::string& site);

// --max-pause of all commands that take a snapshot.
void add_max_pause(CLI::App& app, std::string& max_pause);
// --no-daemon: this process does the work, on a process of the same user.
CLI::Option* add_no_daemon(CLI::App& app, bool& no_daemon);
// The process of a snapshot. names: as for add_pid().
void add_snapshot_pid(CLI::App& app, int& pid, const char* names);

}  // namespace memprofd::ctl
