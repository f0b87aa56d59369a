// Another process's memory through process_vm_readv and process_vm_writev.
// Nothing of the process stops or changes state; needs ptrace permission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

// Errors: kNotFound when the process is gone, kPermissionDenied, kOutOfRange
// when part of the range is not mapped (a partial read is an error).
class ProcessMemory : public MemoryReader {
 public:
  explicit ProcessMemory(int pid) : pid_(pid) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;

 private:
  int pid_;
};

// Writes all of bytes; a partial write is an error, and is left in place. The
// kernel refuses pages that the process itself may not write.
absl::Status write_process_memory(int pid, std::uint64_t address, std::span<const std::byte> bytes);

}  // namespace memprofd
