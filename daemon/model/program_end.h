// SPDX-License-Identifier: Apache-2.0
// How a program ended.
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

enum class EndCause {
  kUnknown,
  kExit,         // exited by itself
  kSignal,       // killed by a signal
  kOutOfMemory,  // killed by the kernel because the machine or a control group ran out of memory
  kExec,         // the process now runs another program
};
// "out_of_memory".
std::string_view cause_name(EndCause cause);

struct ProgramEnd {
  EndCause cause = EndCause::kUnknown;
  int code = 0;  // exit code, or signal number

  // Converts a status of wait(): an exit code, or a signal and the core dump flag.
  static ProgramEnd of_status(int status, bool out_of_memory);
  friend bool operator==(const ProgramEnd&, const ProgramEnd&) = default;
};

// True for what a program does not do when it is asked to end: a signal that nobody sends for that,
// or the exit code 2 of an OCaml program with an uncaught exception. SIGKILL counts.
bool is_failure(const ProgramEnd& end);
// "SIGSEGV", "signal 40"; empty if no signal ended the program.
std::string signal_name(const ProgramEnd& end);
// "the program ended: exit code 2".
std::string end_text(const ProgramEnd& end);

}  // namespace memprofd
