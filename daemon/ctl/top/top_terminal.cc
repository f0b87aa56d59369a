// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_terminal.h"

#include <curses.h>
#include <langinfo.h>
#include <poll.h>
#include <pthread.h>
#include <term.h>
#include <unistd.h>

#include <clocale>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace memprofd::ctl {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};
// Signals that ncurses handles.
constexpr int kOfTerminal[] = {SIGWINCH, SIGTSTP};
volatile std::sig_atomic_t end_wanted = 0;

void want_end(int) { end_wanted = 1; }

}  // namespace

TopSignals::TopSignals() {
  end_wanted = 0;
  sigset_t blocked;
  sigemptyset(&blocked);
  struct sigaction action {};
  action.sa_handler = want_end;
  for (const int signal : kEnding) {
    sigaddset(&blocked, signal);
    ::sigaction(signal, &action, nullptr);
  }
  for (const int signal : kOfTerminal) sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  waiting_ = before_;
  for (const int signal : kEnding) sigdelset(&waiting_, signal);
  for (const int signal : kOfTerminal) sigdelset(&waiting_, signal);
}

TopSignals::~TopSignals() {
  for (const int signal : kEnding) ::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool TopSignals::wait(int fd, bool keys, double seconds) {
  pollfd waited[] = {{fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  const auto ns = static_cast<long long>(seconds * 1e9);
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  if (::ppoll(waited, keys ? 2 : 1, &limit, &waiting_) < 0) return end_wanted == 0;
  return end_wanted == 0 && (waited[1].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

bool has_screen() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return false;
  int error = 0;
  if (::setupterm(nullptr, STDOUT_FILENO, &error) != OK) return false;
  char name[] = "cup";  // moves the cursor
  const char* move = ::tigetstr(name);
  const bool can_move = move != nullptr && reinterpret_cast<std::intptr_t>(move) != -1;
  ::del_curterm(cur_term);
  return can_move;
}

Charset terminal_charset() {
  std::setlocale(LC_CTYPE, "");
  return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0 ? Charset::kUtf8 : Charset::kAscii;
}

}  // namespace memprofd::ctl
