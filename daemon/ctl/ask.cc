// SPDX-License-Identifier: Apache-2.0
// memprofctl values call: has a program do what it offers by a name, and prints its answer.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
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

}  // namespace

absl::Status run_ask(const Options& options) {
  Interrupt interrupt;
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  pb::AskRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const double seconds, parse_duration(options.timeout));
  request.set_pid(pid);
  request.set_name(options.request_name);
  request.set_argument(options.request_argument);
  request.set_timeout_seconds(seconds);
  ASSIGN_OR_RETURN(const pb::AskResponse answer, client.ask(request));
  if (options.json()) return print_json(answer);
  return print(shown(answer));
}

}  // namespace memprofd::ctl
