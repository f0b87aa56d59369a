// SPDX-License-Identifier: Apache-2.0
// memprofctl values: what the modules of a program hold.
#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

absl::Status run_values(const Options& options) {
  Interrupt interrupt;
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  pb::ListValuesRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_pattern(options.value_pattern);
  request.set_with_constants(options.with_constants);
  request.set_with_contents(options.with_contents);
  request.set_limit(options.value_limit);
  ASSIGN_OR_RETURN(const pb::ListValuesResponse values, client.list_values(request));
  return options.json() ? print_json(values) : print(render_values(values, stdout_style()));
}

}  // namespace memprofd::ctl
