// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/program_end.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace memprofd {

std::string_view cause_name(EndCause cause) {
  switch (cause) {
    case EndCause::kUnknown:
      return "unknown";
    case EndCause::kExit:
      return "exit";
    case EndCause::kSignal:
      return "signal";
    case EndCause::kOutOfMemory:
      return "out_of_memory";
    case EndCause::kExec:
      return "exec";
  }
  return "unknown";
}

ProgramEnd ProgramEnd::of_status(int status, bool out_of_memory) {
  if (!WIFSIGNALED(status)) return {.cause = EndCause::kExit, .code = WEXITSTATUS(status)};
  return {.cause = out_of_memory ? EndCause::kOutOfMemory : EndCause::kSignal,
          .code = WTERMSIG(status)};
}

bool is_failure(const ProgramEnd& end) {
  constexpr int kAsked[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
  switch (end.cause) {
    case EndCause::kExit:
      return end.code == 2;
    case EndCause::kSignal:
      return std::ranges::find(kAsked, end.code) == std::end(kAsked);
    default:
      return end.cause == EndCause::kOutOfMemory;
  }
}

std::string signal_name(const ProgramEnd& end) {
  if (end.cause != EndCause::kSignal && end.cause != EndCause::kOutOfMemory) return "";
  const char* name = ::sigabbrev_np(end.code);
  return name == nullptr ? absl::StrCat("signal ", end.code) : absl::StrCat("SIG", name);
}

std::string end_text(const ProgramEnd& end) {
  switch (end.cause) {
    case EndCause::kUnknown:
      return "the program ended";
    case EndCause::kExit:
      return absl::StrCat("the program ended: exit code ", end.code);
    case EndCause::kSignal:
      return absl::StrCat("the program ended: killed by ", signal_name(end));
    case EndCause::kOutOfMemory:
      return "the program ended: out of memory, killed by the kernel (OOM)";
    case EndCause::kExec:
      return "the program replaced itself (exec)";
  }
  return "the program ended";
}

}  // namespace memprofd
