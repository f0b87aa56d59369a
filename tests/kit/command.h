// SPDX-License-Identifier: Apache-2.0
// Runs a command of memprofctl in this process.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ctl/command_line.h"

namespace memprofd::ctl {

// words: the command line after the name of the command that add makes. Throws CLI::ParseError if
// they are not understood.
inline absl::Status run_command(void (*add)(const CommandLine& line, CLI::App& app),
                                std::vector<std::string> words) {
  Options options;
  CommandLine::Run chosen;
  const CommandLine line(options, [&](CLI::App& app, const char*, CommandLine::Run run) {
    app.callback([&chosen, run = std::move(run)] { chosen = run; });
  });
  CLI::App app;
  add(line, app);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app.parse(std::move(words));
  return chosen();
}

}  // namespace memprofd::ctl
