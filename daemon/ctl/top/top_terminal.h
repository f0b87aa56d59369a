// SPDX-License-Identifier: Apache-2.0
// What `top` has to know of its terminal before and while it draws.
#pragma once

#include <csignal>

#include "daemon/ctl/render/sparkline.h"

namespace memprofd::ctl {

// SIGINT, SIGTERM and SIGHUP end a wait instead of the program, so that the terminal is
// always given back. Made before the program has other threads, which inherit the
// blocked signals: all of them, and those of the terminal, arrive in wait() only.
class TopSignals {
 public:
  TopSignals();
  ~TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;

  // Until fd is readable, a key is there (when keys are waited for), a signal has come or
  // the time is over. False: it is time to end, by a signal or because the terminal is gone.
  bool wait(int fd, bool keys, double seconds);

 private:
  sigset_t before_, waiting_;
};

// Whether stdin and stdout are a terminal that can be drawn on, as TERM says.
bool has_screen();
// The charset that the locale says. Sets the program's locale.
Charset terminal_charset();

}  // namespace memprofd::ctl
