// SPDX-License-Identifier: Apache-2.0
// memprofctl values history: what a program has said about itself, or a recording has of that.
#include <utility>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/render_past_values.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

absl::Status run_value_history(const Options& options) {
  ASSIGN_OR_RETURN(const SelectionSpec spec,
                   selection_of(options.query, static_cast<std::int64_t>(realtime_ns())));
  ASSIGN_OR_RETURN(QuestionTarget asked, ask(spec.target, options.endpoint));
  pb::GetValueHistoryRequest request;
  request.set_pid(asked.pid);
  *request.mutable_range() = spec.range;
  request.set_pattern(options.value_pattern);
  request.set_points(options.points);
  request.set_with_lines(options.with_lines);
  ASSIGN_OR_RETURN(const pb::GetValueHistoryResponse values,
                   asked.source->get_value_history(request));
  return options.json() ? print_json(values) : print(past_values_text(values, stdout_style()));
}

}  // namespace memprofd::ctl
