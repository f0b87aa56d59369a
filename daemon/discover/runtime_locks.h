// SPDX-License-Identifier: Apache-2.0
// Checks that no thread of a program runs OCaml code, collects or starts a domain, from the
// runtime's own words while all threads sleep. Then its heap is consistent, and its roots are where
// the scanners expect them. The addresses of those words are read from the machine code of exported
// functions, so stripped programs work too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Meaning of the code of OCaml 4's caml_enter_blocking_section_hook.
struct EnterHook {
  bool does_nothing = false;  // no library of threads: the section leaves no trace
  std::uint64_t busy = 0;     // address of the int that is 0 while the master lock is free
};
// address: where the code runs. nullopt: the code is unknown.
std::optional<EnterHook> read_enter_hook(std::span<const std::byte> code, std::uint64_t address);

// Words of OCaml 5, found in caml_try_run_on_all_domains_with_spin_work; addresses as those of the
// code.
struct SectionWords {
  std::uint64_t leader = 0;   // not 0: a stop-the-world section is running
  std::uint64_t domains = 0;  // int, and 8 bytes behind it the address of dom_internal*[]
};
std::optional<SectionWords> read_section_words(std::span<const std::byte> code,
                                               std::uint64_t address);
// Offsets in dom_internal, found in caml_acquire_domain_lock.
struct DomainOffsets {
  std::uint32_t lock = 0;  // a pthread_mutex_t, whose first int is 0 while it is free
  std::uint32_t state = 0;
};
std::optional<DomainOffsets> read_domain_offsets(std::span<const std::byte> code);

class RuntimeLocks {
 public:
  // kFailedPrecondition, a few words: the words were not found.
  static absl::StatusOr<RuntimeLocks> find(const Target& target);

  // Call it while all threads sleep; call: the system call of this one. Returns the states of the
  // domains; in OCaml 4 the only one. kUnavailable, a few words that begin with "it" or "a": a
  // thread may run OCaml code.
  absl::StatusOr<std::vector<std::uint64_t>> free_states(const MemoryReader& memory,
                                                         const SleepingCall& call) const;
  // OCaml 5: states of domains, at any time: one may begin or end meanwhile. Empty: not readable.
  std::vector<std::uint64_t> domain_states(const MemoryReader& memory) const;

 private:
  // A C function that makes certain system calls only in a blocking section.
  struct Stub {
    std::uint64_t begin = 0, end = 0;  // in the process
    std::span<const long> calls;
  };
  RuntimeLocks() = default;
  absl::Status find_in_ocaml4(const Target& target, const ElfFile& program);
  absl::Status find_in_ocaml5(const Target& target, const ElfFile& program);
  absl::Status check_ocaml4(const MemoryReader& memory, const SleepingCall& call) const;
  absl::Status check_stub(const MemoryReader& memory, const SleepingCall& call) const;
  std::optional<std::uint64_t> called_function(const MemoryReader& memory,
                                               std::uint64_t bottom) const;
  absl::StatusOr<std::vector<std::uint64_t>> states_of_domains(const MemoryReader& memory) const;

  bool has_domains_ = false;
  // OCaml 4.
  std::uint64_t state_ = 0;
  std::uint32_t bottom_of_stack_ = 0, last_return_address_ = 0;
  std::uint64_t enter_hook_ = 0;
  std::uint64_t c_call_ = 0;  // caml_c_call
  std::vector<Stub> stubs_;
  // OCaml 5.
  SectionWords section_;
  DomainOffsets domain_offsets_;
  std::uint64_t running_ = 0;  // caml_num_domains_running
};

}  // namespace memprofd
