// SPDX-License-Identifier: Apache-2.0
// How a program ended.
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

enum class EndCause {
  kUnknown,
  kExit,         // by itself
  kSignal,       // killed by one
  kOutOfMemory,  // chosen by the kernel, for want of memory of the machine or of a control group
  kExec,         // the process is now another program
};
// "out_of_memory".
std::string_view cause_name(EndCause cause);

struct ProgramEnd {
  EndCause cause = EndCause::kUnknown;
  int code = 0;  // that of an exit, or the number of the signal

  // As wait() has it: an exit code, or a signal and whether there is a core.
  static ProgramEnd of_status(int status, bool out_of_memory);
  friend bool operator==(const ProgramEnd&, const ProgramEnd&) = default;
};

// "SIGSEGV", "signal 40"; empty for what no signal has ended.
std::string signal_name(const ProgramEnd& end);
// "the program ended: exit code 2".
std::string end_text(const ProgramEnd& end);

}  // namespace memprofd
