// SPDX-License-Identifier: Apache-2.0
// Properties of the terminal that `top` needs before and while it draws.
#pragma once

#include <csignal>

#include "daemon/ctl/render/sparkline.h"

namespace memprofd::ctl {

// SIGINT, SIGTERM and SIGHUP end a wait instead of the program, so that the terminal is always
// restored. Must be created before the program has other threads, which inherit the blocked
// signals: these and the terminal's signals arrive in wait() only.
class TopSignals {
 public:
  TopSignals();
  ~TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;

  // Waits until fd is readable, a key is pressed (if keys are awaited), a signal arrives, or the
  // time is over. Returns false if top has to end, because of a signal or a lost terminal.
  bool wait(int fd, bool keys, double seconds);

 private:
  sigset_t before_, waiting_;
};

// True if stdin and stdout are a terminal that can be drawn on, according to TERM.
bool has_screen();
// The charset of the locale. Sets the program's locale.
Charset terminal_charset();

}  // namespace memprofd::ctl
