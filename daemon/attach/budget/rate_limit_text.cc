// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/rate_limit_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

// Largest share of CPU at the requested rate for which a larger budget is proposed.
constexpr double kMaxProposed = 0.5;

std::string option_text(double share) {
  return absl::StrFormat("--max-overhead %g%%", 100 * share);
}

// Rounds up to a number that a person would choose: 2.31 % to 3 %, 0.231 % to 0.3 %.
double rounded_up(double share) {
  const double steps = share < 0.01 ? 1000 : 100;
  return std::ceil(steps * share) / steps;
}

}  // namespace

std::string rate_limit_text(const OverheadBudget& budget, memprof_capture_by capture,
                            CaptureMode mode, double memprofd_cores) {
  if (budget.rate() >= budget.ceiling()) return "";
  const std::string rate = absl::StrFormat("%g", budget.rate());
  if (budget.held()) {
    return absl::StrCat("kept at ", rate, " by --cpu.max (memprofd takes ",
                        format_share(memprofd_cores, 1),
                        " of a processor for it); raise that, or ask for lower rates");
  }
  const auto price = budget.sample_seconds();
  if (!price) return absl::StrCat("at ", rate, " until enough samples show what one costs");
  const std::string option = option_text(budget.share());
  // The program's CPU share at the requested rate, with the margin that a budget keeps.
  const double needed = budget.overhead() * budget.ceiling() / budget.rate() / OverheadBudget::kAim;
  const double room = OverheadBudget::kAim * budget.share() / budget.overhead();
  if (room >= OverheadBudget::kWorthRaising || needed <= budget.share()) {
    return absl::StrCat("at ", rate, " for now; rises while ", option, " allows it");
  }
  const std::string_view captured = capture_name(capture);
  std::string text = absl::StrCat("kept at ", rate, " by ", option, " (",
                                  absl::string_view(captured.data(), captured.size()),
                                  " capture costs ", format_duration(*price), " a sample); ");
  const bool may_be_cheaper = mode == CaptureMode::kKernel;
  const bool may_be_proposed = needed <= kMaxProposed;
  if (may_be_cheaper) absl::StrAppend(&text, "try memprofd --capture runtime");
  if (may_be_proposed) {
    absl::StrAppend(&text, may_be_cheaper ? " or " : "try ", option_text(rounded_up(needed)));
  } else if (!may_be_cheaper) {
    absl::StrAppend(&text, absl::StrFormat("%g", budget.ceiling()), " would take ",
                    format_share(needed, 1), " of its CPU");
  }
  return text;
}

}  // namespace memprofd
