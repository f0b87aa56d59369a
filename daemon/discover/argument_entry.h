// SPDX-License-Identifier: Apache-2.0
// Finds a place in a C function at which a probe still finds the arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/function_code.h"
#include "daemon/discover/x86_instruction.h"

namespace memprofd {

// Registers of arguments, as instructions number them.

struct WantedArguments {
  std::vector<std::uint8_t> registers;
  bool return_address = false;  // rsp still points to it
};

struct ArgumentEntry {
  std::uint64_t at = 0;   // bytes from the function's start
  bool is_cheap = false;  // the kernel emulates the instruction there
};

// The first instruction that the kernel emulates, if the arguments are still intact there,
// otherwise the function's first one. nullopt if the code is not understood, or a call may pass
// there twice. Arguments as for read_function_code().
std::optional<ArgumentEntry> find_argument_entry(std::span<const std::byte> code,
                                                 std::uint64_t address, const ReadProgram& read,
                                                 const WantedArguments& wanted);

}  // namespace memprofd
