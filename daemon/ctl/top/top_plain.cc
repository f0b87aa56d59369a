// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_plain.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/top/top_render.h"
#include "daemon/ctl/top/top_terminal.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

bool ended(const TopAnswer& answer) { return !is_active(answer.program.target().state()); }

// Waits this long for the reader to leave.
bool reader_leaves(double seconds) {
  pollfd out{STDOUT_FILENO, 0, 0};  // errors and hang-ups only
  return ::poll(&out, 1, static_cast<int>(seconds * 1000)) > 0;
}

}  // namespace

absl::Status run_plain_top(Questions& source, const TopOptions& options, bool json) {
  std::signal(SIGPIPE, SIG_IGN);  // end normally and not by a signal
  const Charset charset = terminal_charset();
  for (std::uint64_t i = 1;; ++i) {
    const TopAnswer answer = ask_top(source, options.view_state);
    RETURN_IF_ERROR(answer.status);
    // Prints an empty line before each frame but the first. A reader that clears its screen at it
    // shows the frame until the next one.
    const absl::StatusOr<std::string> frame =
        json ? top_json(answer)
             : absl::StatusOr<std::string>(
                   absl::StrCat(i > 1 ? "\n" : "", top_text(answer, charset)));
    RETURN_IF_ERROR(frame.status());
    if (absl::Status status = print(*frame); !status.ok()) {
      return reader_leaves(0) ? absl::OkStatus() : status;
    }
    const bool last = i == options.iterations || (options.iterations == 0 && ended(answer));
    if (last || reader_leaves(options.interval_seconds)) break;
  }
  return absl::OkStatus();
}

}  // namespace memprofd::ctl
