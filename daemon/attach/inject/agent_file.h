// SPDX-License-Identifier: Apache-2.0
// The agent as a file on disk: checks it and finds its probe before any process has loaded it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct AgentFile {
  std::string path;                       // absolute
  std::uint64_t probe_offset = 0;         // file offset of memprof:batch
  std::uint64_t semaphore_offset = 0;     // file offset of its semaphore
  std::uint64_t probe = 0;                // address of memprof:batch in the file
  std::uint64_t control = 0;              // memprof_agent_control, likewise
  std::uint64_t poll = 0;                 // memprof_agent_poll, likewise
  std::uint64_t native_heap = 0;          // memprof_c_heap, likewise
  std::uint64_t native_alloc_offset = 0;  // file offset of memprof_c_alloc_probe
  std::uint64_t native_free_offset = 0;   // file offset of memprof_c_free_probe
  std::shared_ptr<ElfFile> elf;
};

// kDataLoss, with the remedy, if the file is missing or is not our agent.
absl::StatusOr<AgentFile> open_agent_file(const std::string& path);

// The location at which a process has mapped that file, under its own path or that of a copy;
// nothing if it has not mapped the file. Fast, because it reads only the given mappings.
std::optional<AgentLocation> locate_agent(const AgentFile& file, const std::vector<Mapping>& maps,
                                          const std::string& mapped_path);

// The same if the load bias is known: the difference between addresses in the process and in the
// file.
AgentLocation agent_loaded_at(const AgentFile& file, std::uint64_t bias, const std::string& path);

// Path of the agent: beside this program in a build tree, otherwise under ../lib/memprofd.
std::string default_agent_path();

}  // namespace memprofd
