// SPDX-License-Identifier: Apache-2.0
// The commands about heap snapshots, and their options.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace memprofd::ctl {

using Command = absl::Status (*)(const Options&);
// A subcommand of the parent that runs the command.
using AddCommand =
    std::function<CLI::App*(CLI::App& parent, const char* name, const char* help, Command command)>;

// Adds a question about the file of a snapshot that has no options of its own.
struct FileQuestion {
  const char* name;
  const char* help;
  Command run;
};
std::vector<FileQuestion> file_questions();
// The option of all commands that take a snapshot.
void add_max_pause(CLI::App& sub, Options& options);
// Adds memprofctl why, and all of memprofctl snapshot. options must outlive app.
void add_snapshot_commands(CLI::App& app, Options& options, const AddCommand& add);

}  // namespace memprofd::ctl
