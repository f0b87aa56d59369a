// SPDX-License-Identifier: Apache-2.0
// The program's side of shared memory (agent-lib/include/memprof_share_abi.h): writes valid data
// like an agent, and invalid data.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "agent-lib/include/memprof_share_abi.h"

namespace memprofd::testing {

class SharingAgent {
 public:
  // Addresses of the parts in the program.
  static constexpr std::uint64_t kControl = 0x10000000, kDomains = 0x20000000,
                                 kBuffers = 0x30000000;

  SharingAgent(int descriptor, std::uint64_t ring_bytes)
      : bytes_(MEMPROF_SHARE_RING + ring_bytes),
        shared_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {}
  SharingAgent(const SharingAgent&) = delete;
  SharingAgent& operator=(const SharingAgent&) = delete;
  ~SharingAgent() { ::munmap(shared_, bytes_); }

  memprof_share& head() { return at<memprof_share>(0); }
  memprof_agent_control& control() { return at<memprof_agent_control>(MEMPROF_SHARE_CONTROL); }
  memprof_batch_buffer& buffer(std::size_t i) {
    return at<memprof_batch_buffer>(MEMPROF_SHARE_BUFFERS + i * sizeof(memprof_batch_buffer));
  }
  std::span<std::byte> ring() {
    return {shared_ + MEMPROF_SHARE_RING, bytes_ - MEMPROF_SHARE_RING};
  }

  void take(int pid, const char* exe) {
    control() = {.magic = MEMPROF_AGENT_MAGIC,
                 .abi_version = MEMPROF_AGENT_ABI,
                 .control_bytes = sizeof(memprof_agent_control),
                 .buffer_bytes = sizeof(memprof_batch_buffer),
                 .buffer_count = MEMPROF_BUFFERS,
                 .domain_bytes = sizeof(memprof_domain),
                 .domain_count = MEMPROF_DOMAINS,
                 .buffers = kBuffers,
                 .domains = kDomains,
                 .state = MEMPROF_AGENT_SAMPLING,
                 .buffers_used = 1};
    std::strncpy(head().exe, exe, sizeof head().exe - 1);
    head().pid = static_cast<std::uint32_t>(pid);
    head().domains = kDomains;
    head().buffers = kBuffers;
    head().control = kControl;
  }
  // Appends like the agent; false: no room.
  bool put(std::span<const std::byte> event) {
    const std::uint64_t size = ring().size(), bytes = (8 + event.size() + 7) / 8 * 8;
    const std::uint64_t left = size - head().written % size, skip = left < bytes ? left : 0;
    if (head().written + skip + bytes - head().read > size) return false;
    if (skip > 0) set_word(head().written, MEMPROF_SHARE_SKIP);
    set_word(head().written + skip, event.size());
    if (!event.empty())
      std::memcpy(&ring()[(head().written + skip) % size + 8], event.data(), event.size());
    head().written += skip + bytes;
    return true;
  }
  void set_word(std::uint64_t position, std::uint64_t word) {
    std::memcpy(&ring()[position % ring().size()], &word, sizeof word);
  }

 private:
  template <typename T>
  T& at(std::size_t offset) {
    return *reinterpret_cast<T*>(shared_ + offset);
  }

  const std::size_t bytes_;
  std::byte* const shared_;
};

}  // namespace memprofd::testing
