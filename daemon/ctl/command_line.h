// SPDX-License-Identifier: Apache-2.0
// The command line of memprofctl as seen by the file of a command.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace memprofd::ctl {

class CommandLine {
 public:
  using Run = std::function<absl::Status()>;
  // Makes the command app run the function if it is named, with this help.
  using SetUp = std::function<void(CLI::App& app, const char* help, Run run)>;

  // options must outlive this and the commands.
  CommandLine(Options& options, SetUp set_up) : options_(options), set_up_(std::move(set_up)) {}

  // Options that several commands share.
  Options& options() const { return options_; }
  // Makes app call run(options(), own); own: the command's own options, to which the result refers.
  template <typename Own>
  Own& set_up(CLI::App& app, const char* help,
              absl::Status (*run)(const Options& options, const Own& own)) const {
    const auto own = std::make_shared<Own>();
    set_up_(app, help, [&options = options_, own, run] { return run(options, *own); });
    return *own;
  }
  // Does the same for a command without options of its own.
  void set_up(CLI::App& app, const char* help, absl::Status (*run)(const Options& options)) const {
    set_up_(app, help, [&options = options_, run] { return run(options); });
  }

 private:
  Options& options_;
  const SetUp set_up_;
};

}  // namespace memprofd::ctl
