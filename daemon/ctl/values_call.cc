// SPDX-License-Identifier: Apache-2.0
// memprofctl values call: calls an action that the program registered, and prints its reply.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// Prints the lines of the reply without characters that would move the cursor.
std::string shown(const pb::AskResponse& response) {
  std::string text;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(response.answer(), '\n'))) {
    absl::StrAppend(&text, printable(line), "\n");
  }
  if (response.answer().ends_with('\n')) text.pop_back();
  return response.is_cut() ? absl::StrCat(text, "..\n") : text;
}

struct AskOptions {
  std::string name, argument;
  std::string timeout = "10s";
};

absl::Status run_ask(const Options& options, const AskOptions& ask) {
  Interrupt interrupt;
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  pb::AskRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const double seconds, parse_duration(ask.timeout));
  request.set_pid(pid);
  request.set_name(ask.name);
  request.set_argument(ask.argument);
  request.set_timeout_seconds(seconds);
  ASSIGN_OR_RETURN(const pb::AskResponse answer, client.ask(request));
  if (options.json()) return print_json(answer);
  return print(shown(answer));
}

}  // namespace

void add_ask(const CommandLine& line, CLI::App& app) {
  AskOptions& ask =
      line.set_up(app, "Call an action that the program registered, and print its reply", &run_ask);
  app.add_option("name", ask.name, "Name of the action, as `memprofctl values` lists it")
      ->required()
      ->type_name("NAME");
  app.add_option("argument", ask.argument, "Argument for the action")->type_name("TEXT");
  add_pid(app, line.options().pid);
  app.add_option("--timeout", ask.timeout,
                 "Stop waiting after TIME, at most 60s; withdraws the request if the action has "
                 "not started")
      ->type_name("TIME")
      ->capture_default_str();
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
