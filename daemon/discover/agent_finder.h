// SPDX-License-Identifier: Apache-2.0
// Agents that are in a process already: linked in, preloaded or injected.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// Without a control block (address 0) it is only known that it is there: its name says so, but its
// file cannot be opened. Only a privileged process can open one that was deleted or replaced since.
struct AgentLocation {
  std::string path;                       // path that opens the file from here
  SharedFd file;                          // that file, open; null from locate_agent()
  std::uint64_t control_address = 0;      // of struct memprof_agent_control in the process
  std::uint64_t poll_address = 0;         // of memprof_agent_poll in the process; 0: has none
  std::uint64_t probe_offset = 0;         // file offset of memprof:batch
  std::uint64_t probe_address = 0;        // of that in the process
  std::uint64_t semaphore_offset = 0;     // file offset of its semaphore
  std::uint64_t semaphore_address = 0;    // of that in the process
  std::uint64_t native_heap_address = 0;  // of struct memprof_c_heap in the process; 0: has none
  // File offsets of memprof_c_alloc_probe and memprof_c_free_probe; 0: has none.
  std::uint64_t native_alloc_offset = 0;
  std::uint64_t native_free_offset = 0;
};

// Searches the program, loaded with load_bias, and every other file that has executable mappings;
// each file once, even if it is mapped several times or under several names. A file that cannot be
// parsed, or lacks has_its_data(), contains no agent. After the stop no further file is opened.
std::vector<AgentLocation> find_agents(const ProcFs& proc, int pid,
                                       const std::vector<Mapping>& maps, const ElfFile& program,
                                       std::uint64_t load_bias,
                                       const SharedBudget& budget = nullptr,
                                       const std::stop_token& stop = {});

// True if the agent's writable data is mapped. A dlopen that failed for lack of mappings leaves
// parts of the file, with other bytes at the control block's address.
bool has_its_data(const AgentLocation& agent, const std::vector<Mapping>& maps);

// Address of the program's published values (struct memprof_values) in the process; 0 if it
// publishes none.
std::uint64_t find_registry(const ElfFile& program, std::uint64_t load_bias);

// A file that the process has mapped, and the path that it was opened by.
struct MappedFile {
  std::string path;
  std::unique_ptr<ElfFile> elf;
};

// Opens a mapped file from this mount namespace: through the process's root when the same file is
// still there, otherwise through map_files. Errors as for open_regular_file() and
// ElfFile::from_fd().
absl::StatusOr<MappedFile> open_mapping(const ProcFs& proc, int pid, const Mapping& mapping,
                                        const SharedBudget& budget = nullptr);

// Load bias of one file, from its mappings: those with the given path, as maps prints it. nullopt
// if none of its executable mappings fits the file's segments.
std::optional<std::uint64_t> find_load_bias(const std::vector<Mapping>& maps,
                                            const std::string& path, const ElfFile& file);

}  // namespace memprofd
