// SPDX-License-Identifier: Apache-2.0
// The work of a memory server (memory_server.h): it answers requests until its socket closes. It is
// forked from a process that may have threads, so nothing here takes a lock or allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/discover/memory/memory_server.h"

namespace memprofd {

struct MemoryService {
  static constexpr int kMaxFiles = 4;  // the socket and MemoryFiles

  int pid = 0;
  std::uint64_t mark = 0;                   // of MemoryFiles
  int files[kMaxFiles] = {-1, -1, -1, -1};  // existing ones come first
  std::byte* window = nullptr;              // in the server, if it has one

  int socket() const { return files[0]; }
  int mem() const { return files[1]; }
  int maps() const { return files[2]; }
  int window_file() const { return files[3]; }
};

// Fails earlier and later requests with this errno, because there is no server.
void no_server_error(const MemoryService& service, int error);

[[noreturn]] void serve(MemoryService& service);

}  // namespace memprofd
