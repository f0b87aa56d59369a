// SPDX-License-Identifier: Apache-2.0
#include "daemon/signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace memprofd {

Signals::Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  descriptor_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) std::abort();
}

std::optional<int> Signals::wait(std::chrono::milliseconds time) const {
  pollfd wait{descriptor_.get(), POLLIN, 0};
  signalfd_siginfo info{};
  if (::poll(&wait, 1, static_cast<int>(time.count())) != 1 ||
      ::read(descriptor_.get(), &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace memprofd
