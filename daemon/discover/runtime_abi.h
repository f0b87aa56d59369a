// SPDX-License-Identifier: Apache-2.0
// What differs between OCaml runtimes, in one place. Offsets are bytes into the
// runtime's domain state (Caml_state); they are checked against the machine
// code of the running binary before use (see verify_runtime_abi).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

class ElfFile;

struct RuntimeAbi {
  std::string version;      // as the program reports it ("4.13.1"), else "4.13" by symbols
  bool has_memprof = true;  // Gc.Memprof came with 4.11 and was a stub in 5.0 to 5.2

  std::uint32_t young_limit = 0;
  std::uint32_t young_ptr = 0;
  std::uint32_t young_alloc_end = 0;
  std::uint32_t bottom_of_stack = 0;
  std::uint32_t last_return_address = 0;
  // stat_minor_words, _promoted_words, _major_words (doubles), then integers:
  // minor and major collections, heap words, top heap words, compactions;
  // consecutive 8-byte words.
  std::uint32_t stats = 0;
  std::uint32_t heap_chunks = 0;
  std::uint32_t local_roots = 0;  // of C code, with and without domains
  // Blocks allocated by C wait for their callbacks in one queue of the process, which
  // any thread may empty; else in one of each thread.
  bool one_postponed_queue = false;

  // OCaml 5: each domain has a state and a Memprof, each fiber a stack. Of the above,
  // young_limit, young_ptr, young_alloc_end and stats have a meaning then; stats are three words:
  // minor, promoted, major, integers.
  bool domains = false;
  std::uint32_t current_stack = 0;  // stack_info of the fiber that runs
  std::uint32_t c_stack = 0;        // the link to the stack of C code; 0: not known
  std::uint32_t external_interrupt = 0;
  std::uint32_t memprof = 0;
  std::uint32_t memprof_config = 0;  // in the domain's Memprof
  std::uint32_t shared_heap = 0;     // 8 bytes before the domain's number
  bool end_lines = false;            // debuginfo has end lines (since 5.2)
  // A collection moves the callstack of a sample that is about to be called back (since 5.4).
  bool callstacks_stay = false;
};

// The layout of a version ("4.13.1", "4.14"); kFailedPrecondition, in one line,
// for a version that is not supported.
absl::StatusOr<RuntimeAbi> runtime_abi_for(std::string_view version);

// Sys.ocaml_version as found in the data of module Stdlib.Sys, where it is a
// static OCaml string. section is 8-byte aligned in the program.
std::optional<std::string> find_version_string(std::span<const std::byte> section);

// Version of the runtime in a program: what Sys.ocaml_version says or, where
// that module is not linked, major and minor number by the runtime's symbols.
// The program has caml_frametable.
std::string detect_runtime_version(const ElfFile& program);

// Offsets that caml_c_call uses, read from its machine code.
struct CodeOffsets {
  std::optional<std::uint32_t> bottom_of_stack;
  std::optional<std::uint32_t> last_return_address;
  std::optional<std::uint32_t> young_ptr;
  std::optional<std::uint32_t> current_stack;  // OCaml 5
  std::optional<std::uint32_t> c_stack;        // likewise
};
CodeOffsets decode_caml_c_call(std::span<const std::byte> code);
// requested_external_interrupt, read from caml_process_external_interrupt.
std::optional<std::uint32_t> decode_process_interrupt(std::span<const std::byte> code);

// The displacement of the first 64-bit load of a far field: mov disp32(base), register.
enum class FarLoad { kAny, kFromRdi, kToRdi };
std::optional<std::uint32_t> decode_far_load(std::span<const std::byte> code, FarLoad which);

// The beginnings of the OCaml 5 functions by which the agent's offsets are checked. The place of
// a domain's profile in its Memprof is not among them: the agent tries that one itself.
struct AgentCode {
  std::span<const std::byte> process_interrupt;  // caml_process_external_interrupt
  std::span<const std::byte> delete_domain;      // caml_memprof_delete_domain
  std::span<const std::byte> minor_words;        // caml_gc_minor_words_unboxed
  std::span<const std::byte> alloc_shr;          // caml_alloc_shr
};

// Compares the layout with the code of caml_c_call; kFailedPrecondition, in one line,
// when they differ or the code is not understood.
absl::Status verify_runtime_abi(const RuntimeAbi& abi, std::span<const std::byte> caml_c_call);
// The same of what the agent needs in OCaml 5.
absl::Status verify_agent_abi(const RuntimeAbi& abi, const AgentCode& code);

}  // namespace memprofd
