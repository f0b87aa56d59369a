#include "daemon/ctl/top_plain.h"

#include <poll.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "daemon/ctl/output.h"
#include "daemon/ctl/render_json.h"
#include "daemon/ctl/top_render.h"
#include "daemon/ctl/top_terminal.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

bool ended(const TopAnswer& answer) {
  const pb::TargetState state = answer.program.target().state();
  return state != pb::TARGET_STATE_SAMPLING && state != pb::TARGET_STATE_WAITING;
}

}  // namespace

absl::Status run_plain_top(Questions& source, const TopOptions& options, bool json) {
  std::signal(SIGPIPE, SIG_IGN);  // to end as asked and not by a signal
  const Charset charset = terminal_charset();
  for (std::uint64_t i = 1;; ++i) {
    const TopAnswer answer = ask_top(source, options.look);
    RETURN_IF_ERROR(answer.status);
    const std::string frame = json ? top_json(answer) : top_text(answer, charset);
    if (const absl::Status status = print(frame); !status.ok()) {
      return errno == EPIPE ? absl::OkStatus() : status;
    }
    if (i == options.iterations || (options.iterations == 0 && ended(answer))) break;
    if (!json && !print("\n").ok()) break;
    ::poll(nullptr, 0, static_cast<int>(options.interval_seconds * 1000));
  }
  return absl::OkStatus();
}

}  // namespace memprofd::ctl
