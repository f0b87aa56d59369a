// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/runtime_counters.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/read_at.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::Status RuntimeCounters::Memory::read(std::uint64_t address, std::span<std::byte> out) const {
  if (address >= kEndOfMemory) return absl::OutOfRangeError("no address of a process");
  return read_at(file_.get(), address, out);
}

absl::StatusOr<RuntimeCounters> RuntimeCounters::open(int pid, const std::string& exe,
                                                      const OcamlProgram& program,
                                                      std::uint64_t bias) {
  const std::string folder = absl::StrCat("/proc/", pid);
  UniqueFd file(::open(absl::StrCat(folder, "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read the memory of pid ", pid, ": ", std::strerror(errno)));
  }
  std::error_code error;
  if (std::filesystem::read_symlink(folder + "/exe", error) != exe) {
    return absl::FailedPreconditionError(absl::StrCat("pid ", pid, " is not the program"));
  }
  RuntimeCounters counters(Memory(std::move(file)), program.abi);
  const auto address_of = [bias](const ElfSymbol& symbol) {
    return symbol.address == 0 ? 0 : symbol.address + bias;
  };
  const RuntimeSymbols& symbols = program.symbols;
  if (!program.abi.domains) counters.state_pointer_ = address_of(symbols.state);
  counters.counters_ = {.free_words = address_of(symbols.free_words),
                        .minor_collections = address_of(symbols.minor_collections),
                        .major_cycles = address_of(symbols.major_cycles),
                        .compactions = address_of(symbols.compactions)};
  return counters;
}

absl::StatusOr<GcStats> RuntimeCounters::read(const SharedAgent& agent) const {
  if (abi_.domains) {
    ASSIGN_OR_RETURN(const AgentStatus status, agent.status());
    return read_domain_gc_stats(memory_, abi_, counters_, agent.domains(status),
                                status.ended_words);
  }
  std::uint64_t state = 0;
  RETURN_IF_ERROR(memory_.read_value(state_pointer_, state));
  if (state == 0) return absl::UnavailableError("the runtime has not started");
  return read_gc_stats(memory_, state, abi_, counters_);
}

}  // namespace memprofd
