// SPDX-License-Identifier: Apache-2.0
// Checks whether a file is an OCaml program that can be profiled, in which mode, and finds the
// required symbols.
//
//   both modes     caml_frametable, caml_c_call; in OCaml 4 Caml_state
//   agent          a working Gc.Memprof, code that captures callstacks, the safe point
//   observe mode   caml_alloc_small_dispatch
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

// Symbols of the OCaml runtime in the program's file, at the file's addresses.
struct RuntimeSymbols {
  ElfSymbol frametable;  // caml_frametable
  ElfSymbol state;       // OCaml 4: Caml_state, a pointer; OCaml 5: caml_state, one per thread
  ElfSymbol capture;     // caml_collect_current_callstack; OCaml 5: caml_get_callstack
  ElfSymbol safe_point;  // caml_do_pending_actions_exn; OCaml 5: ..._res
  ElfSymbol c_call;      // caml_c_call
  // The runtime's code in assembler, which calls C; zeros when absent.
  ElfSymbol system_begin, system_end;
  ElfSymbol user_callstack;       // caml_get_current_callstack; zeros when absent
  ElfSymbol track_interned;       // OCaml 4: caml_memprof_track_interned
  ElfSymbol register_frametable;  // function by which Dynlink registers frame tables; zeros:
                                  // unavailable
  ElfSymbol pending_actions;      // OCaml 4: caml_something_to_do, an int
  ElfSymbol free_words;           // OCaml 4: caml_fl_cur_wsz, a word
  // OCaml 5: functions whose code contains offsets of the runtime.
  ElfSymbol process_interrupt, delete_domain, minor_words, alloc_shr;
  ElfSymbol slow_allocation;  // caml_alloc_small_dispatch
  // OCaml 5: counters of the whole program, 8-byte words; zeros when absent.
  ElfSymbol minor_collections, major_cycles, compactions;
};

struct OcamlProgram {
  RuntimeAbi abi;  // verified against the program's code
  RuntimeSymbols symbols;
  // Why a mode is impossible, one line; empty when it is possible. Not both are set.
  std::string why_no_agent;
  std::string why_no_observe;
};

// kFailedPrecondition for everything that is not such a program; the message is
// the rest of a sentence that starts with "pid 4242 ".
absl::StatusOr<OcamlProgram> check_program(const ElfFile& file);

// Symbols for profiling that the file lacks, for its kind of runtime. For doctor.
struct RuntimeSymbolCheck {
  std::size_t wanted = 0;
  std::vector<std::string> missing;
};
RuntimeSymbolCheck locate_symbols(const ElfFile& file);

}  // namespace memprofd
