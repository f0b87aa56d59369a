// The agent's control block, from outside (agent-lib/include/memprof_agent_abi.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

// Everything of the control block but its records.
struct AgentStatus {
  memprof_agent_state state = MEMPROF_AGENT_IDLE;
  double rate = 0;
  std::uint32_t generation = 0;
  std::uint32_t requested_generation = 0;
  std::uint64_t starts = 0;
  std::uint64_t stops = 0;
  memprof_pauses pauses[MEMPROF_GC_PHASES] = {};
  std::uint64_t first_seq = 0;
  std::uint32_t count = 0;
  std::uint32_t batch_generation = 0;
};

// The unflushed records at one instant.
struct AgentTail {
  std::uint64_t first_seq = 0;
  std::uint32_t generation = 0;
  std::vector<memprof_record> records;
};

// Whether a control block, of which at least the first three fields are filled
// in, is of the interface that this memprofd speaks.
bool is_our_build(const memprof_agent_control& block);

class AgentControl {
 public:
  // address is that of memprof_agent_control in the process.
  AgentControl(int pid, const MemoryReader& memory, std::uint64_t address)
      : pid_(pid), memory_(&memory), address_(address) {}

  // Fails with kDataLoss when what lies there is another build's agent.
  absl::StatusOr<AgentStatus> status() const;
  // kUnavailable when the agent flushed meanwhile: its records come by the probe.
  absl::StatusOr<AgentTail> tail() const;
  // Asks for a session with this rate (0: none). generation must be new. The
  // session ends by itself unless renew() is called within kLeaseNs.
  absl::Status request(double rate, std::uint32_t generation) const;
  absl::Status renew() const;
  static constexpr std::uint64_t kLeaseNs = 15'000'000'000;

 private:
  template <typename T>
  absl::Status write(std::size_t offset, const T& value) const;

  int pid_;
  const MemoryReader* memory_;  // not owned
  std::uint64_t address_;
};

}  // namespace memprofd
