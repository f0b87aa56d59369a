// SPDX-License-Identifier: Apache-2.0
// Finds the entry and the exits of a compiled OCaml function in its machine code: the places for
// probes that count and time its calls.
//
// A call is an entry from outside. A self tail call jumps back into the function, which is an
// iteration of a loop and not a call. A probe is placed where the code passes once per call: at the
// first instruction of the entry that the kernel emulates (a single-stepped one costs ten times as
// much), unless a jump comes back before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace memprofd {

// Maximum size of a function; longer ones are not examined.
inline constexpr std::uint64_t kMaxFunctionBytes = 1u << 20;

// The end of a call. The stack pointer has the value that it had at the function's first
// instruction.
struct FunctionExit {
  std::uint64_t at = 0;       // bytes from the function's start
  bool is_tail_call = false;  // a jump to another function; otherwise a return
};

// The place at which a call is counted.
struct FunctionEntry {
  std::uint64_t at = 0;   // bytes from the function's start
  bool is_cheap = false;  // the kernel emulates the instruction there
  // For a timed_entry: the distances, in words, of the stack pointer and of the end of the free
  // part of the minor heap (r15) below their values at the first instruction.
  std::uint32_t stack_words = 0;
  std::uint32_t young_words = 0;
};

struct FunctionCode {
  // Why calls cannot be counted, a few words: "it loops back to its first instruction"; empty:
  // entry is where they are.
  std::string why_uncounted;
  FunctionEntry entry;

  // Why calls cannot be timed, a few words: "it is one jump". Empty: timed_entry is not an exit,
  // and the exits are complete except for exceptions.
  std::string why_untimed;
  FunctionEntry timed_entry;
  std::vector<FunctionExit> exits;
};

// Reads memory of the program's file, where jump tables are beside the code. Returns false if it
// cannot.
using ReadProgram = std::function<bool(std::uint64_t address, std::span<std::byte> out)>;

// code: the whole function at the address, which is an address of the file.
FunctionCode read_function_code(std::span<const std::byte> code, std::uint64_t address,
                                const ReadProgram& read);

}  // namespace memprofd
