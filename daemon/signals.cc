// SPDX-License-Identifier: Apache-2.0
#include "daemon/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace memprofd {

Signals::Signals() {
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) {
    terminal_ = UniqueFd(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC));
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  descriptor_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) std::abort();
}

// A terminal hangs up before it sends the signal.
Signal Signals::hangup() const {
  pollfd terminal{terminal_.get(), 0, 0};  // poll() ignores an invalid descriptor
  const bool closed = ::poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLHUP) != 0;
  return closed ? Signal::kTerminalClosed : Signal::kReload;
}

std::optional<Signal> Signals::wait(std::chrono::milliseconds time) const {
  pollfd wait{descriptor_.get(), POLLIN, 0};
  signalfd_siginfo info{};
  if (::poll(&wait, 1, static_cast<int>(time.count())) != 1 ||
      ::read(descriptor_.get(), &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  switch (info.ssi_signo) {
    case SIGINT:
      return Signal::kInterrupt;
    case SIGHUP:
      return hangup();
    default:
      return Signal::kTerminate;
  }
}

}  // namespace memprofd
