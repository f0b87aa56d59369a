// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/agent_finder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/discover/agent_names.h"
#include "daemon/util/base_name.h"
#include "daemon/util/file_id.h"
#include "daemon/util/regular_file.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Finds the agent in a file. Addresses are relative to the file; the path is left empty.
std::optional<AgentLocation> agent_in(const ElfFile& file) {
  const std::vector<StapProbe> probes = file.stap_probes();
  const auto probe = std::find_if(probes.begin(), probes.end(), [](const StapProbe& p) {
    return p.provider == "memprof" && p.name == "batch";
  });
  if (probe == probes.end()) return std::nullopt;
  static constexpr std::array<std::string_view, 5> kNames = {
      "memprof_agent_control", "memprof_agent_poll", "memprof_c_heap", "memprof_c_alloc_probe",
      "memprof_c_free_probe"};
  const auto symbols = file.find_symbols(kNames);
  const auto offset_of = [&file](const auto& symbol) {
    return symbol ? file.offset_of(symbol->address).value_or(0) : 0;
  };
  const auto probe_offset = file.offset_of(probe->location);
  const auto semaphore_offset = file.offset_of(probe->semaphore);
  if (!symbols[0] || !probe_offset || !semaphore_offset) return std::nullopt;
  return AgentLocation{.file = file.descriptor(),
                       .control_address = symbols[0]->address,
                       .poll_address = symbols[1] ? symbols[1]->address : 0,
                       .probe_offset = *probe_offset,
                       .probe_address = probe->location,
                       .semaphore_offset = *semaphore_offset,
                       .semaphore_address = probe->semaphore,
                       .native_heap_address = symbols[2] ? symbols[2]->address : 0,
                       .native_alloc_offset = offset_of(symbols[3]),
                       .native_free_offset = offset_of(symbols[4])};
}

void move_by(std::uint64_t load_bias, AgentLocation& agent) {
  agent.control_address += load_bias;
  agent.probe_address += load_bias;
  agent.semaphore_address += load_bias;
  if (agent.poll_address != 0) agent.poll_address += load_bias;
  if (agent.native_heap_address != 0) agent.native_heap_address += load_bias;
}

bool is_named_as_agent(const std::string& path) {
  return base_name(without_deleted(path)) == kAgentName || path == kAgentMemfdMapping;
}

}  // namespace

bool has_its_data(const AgentLocation& agent, const std::vector<Mapping>& maps) {
  const auto is_writable = [&](std::uint64_t address) {
    return std::ranges::any_of(maps, [&](const Mapping& mapping) {
      return mapping.writable && mapping.begin <= address && address < mapping.end;
    });
  };
  return is_writable(agent.control_address) && is_writable(agent.semaphore_address);
}

std::uint64_t find_registry(const ElfFile& program, std::uint64_t load_bias) {
  for (const StapProbe& probe : program.stap_probes()) {
    if (probe.provider != "memprof" || probe.name != "values" || probe.semaphore == 0) continue;
    return load_bias + probe.semaphore - offsetof(memprof_values_head, semaphore);
  }
  return 0;
}

absl::StatusOr<MappedFile> open_mapping(const ProcFs& proc, int pid, const Mapping& mapping,
                                        const SharedBudget& budget) {
  MappedFile mapped{.path = proc.path(pid, "root" + mapping.path), .elf = nullptr};
  absl::StatusOr<UniqueFd> file = open_regular_file(mapped.path, mapping.path, mapping.inode);
  if (!file.ok() && !absl::IsResourceExhausted(file.status())) {
    mapped.path = proc.path(pid, fmt::format("map_files/{:x}-{:x}", mapping.begin, mapping.end));
    file = open_regular_file(mapped.path, mapping.path);
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(mapped.elf, ElfFile::from_fd(*std::move(file), mapping.path, budget));
  return mapped;
}

std::optional<std::uint64_t> find_load_bias(const std::vector<Mapping>& maps,
                                            const std::string& path, const ElfFile& file) {
  for (const Mapping& mapping : maps) {
    if (!mapping.executable || mapping.path != path) continue;
    if (auto bias = file.load_bias(mapping.begin, mapping.end, mapping.offset)) return bias;
  }
  return std::nullopt;
}

std::vector<AgentLocation> find_agents(const ProcFs& proc, int pid,
                                       const std::vector<Mapping>& maps, const ElfFile& program,
                                       std::uint64_t load_bias, const SharedBudget& budget,
                                       const std::stop_token& stop) {
  std::vector<AgentLocation> agents;
  const std::string exe = proc.exe(pid).value_or("");
  if (auto agent = agent_in(program)) {
    move_by(load_bias, *agent);
    agent->path = proc.path(pid, "exe");
    agents.push_back(std::move(*agent));
  }
  std::set<FileId> seen;
  for (const Mapping& mapping : maps) {
    if (stop.stop_requested()) break;
    if (!mapping.executable || !mapping.path.starts_with('/') || mapping.path == exe) continue;
    if (!seen.insert({mapping.device, mapping.inode}).second) continue;
    absl::StatusOr<MappedFile> file = open_mapping(proc, pid, mapping, budget);
    if (!file.ok() && is_named_as_agent(mapping.path)) agents.push_back({.path = mapping.path});
    if (!file.ok()) continue;
    auto agent = agent_in(*file->elf);
    const auto bias = agent ? find_load_bias(maps, mapping.path, *file->elf) : std::nullopt;
    if (!bias) continue;
    move_by(*bias, *agent);
    if (!has_its_data(*agent, maps)) continue;
    agent->path = std::move(file->path);
    agents.push_back(std::move(*agent));
  }
  return agents;
}

}  // namespace memprofd
