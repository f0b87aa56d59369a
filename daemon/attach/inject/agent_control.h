// SPDX-License-Identifier: Apache-2.0
// Reads and writes the agent's control block (agent-lib/include/memprof_agent_abi.h) from outside
// of the process.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/attach/inject/owner_token.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/target_memory.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

// Contents of the control block except the records.
struct AgentStatus {
  OwnerToken owner;
  memprof_agent_state state = MEMPROF_AGENT_IDLE;
  double rate = 0;
  std::uint32_t generation = 0;
  std::uint32_t requested_generation = 0;
  std::uint64_t starts = 0;
  std::uint64_t stops = 0;
  std::uint64_t conflicts = 0;
  std::uint64_t domains_left_out = 0;
  std::uint64_t program_stops = 0;
  std::uint64_t uncertain_deaths = 0;
  memprof_pauses pauses[MEMPROF_GC_PHASES] = {};
  std::array<std::uint64_t, 3> ended_words{};
  std::uint32_t buffers_used = 0;  // at most MEMPROF_BUFFERS
  std::uint32_t domains_used = 0;  // at most MEMPROF_DOMAINS
  std::uint64_t buffers = 0;       // addresses of the buffers, as reported by the target
  std::uint64_t domains = 0;
  // Not set if the agent does not report it (interface 5): then each session forgets earlier
  // blocks.
  std::optional<std::uint32_t> followed_since;
  std::uint64_t unsampled_words = 0;
  std::uint32_t callstacks_moved = 0;  // wraps
  memprof_capture_by running_capture = MEMPROF_CAPTURE_BY_KERNEL;
  memprof_walk_state walk_state = MEMPROF_WALK_OK;
  std::uint32_t callstacks_cut = 0;  // wraps

  // No session or request has had this generation yet.
  std::uint32_t next_generation() const { return std::max(generation, requested_generation) + 1; }
};

// The batch formats of memprof_batch_format.
struct PlainTail {
  std::vector<memprof_record> records;
};
struct PackedTail {
  memprof_packed_head head{};  // its number of records comes from the buffer
  std::vector<std::uint32_t> words;
};

// The unflushed records of a buffer at one instant.
struct AgentTail {
  std::uint32_t buffer = 0;
  std::uint64_t first_seq = 0;
  std::uint32_t generation = 0;
  std::uint64_t sampled = 0;  // number of sampled blocks so far
  std::variant<PlainTail, PackedTail> batch;
};

// The offsets of an OCaml 5 runtime that the agent needs.
memprof_runtime_offsets runtime_offsets(const RuntimeAbi& abi);

// Parameters of a session.
struct SessionRequest {
  double rate = 0;  // samples per word; 0: none
  std::uint32_t generation = 0;
  memprof_capture_by capture = MEMPROF_CAPTURE_BY_KERNEL;
};

// The first fields of a control block.
struct AgentBuild {
  std::uint64_t magic = 0;
  std::uint32_t abi_version = 0;
  std::uint32_t control_bytes = 0;
  std::uint32_t buffer_bytes = 0;
  std::uint32_t buffer_count = 0;
  std::uint32_t domain_bytes = 0;
  std::uint32_t domain_count = 0;
};
static_assert(offsetof(memprof_agent_control, domain_count) == offsetof(AgentBuild, domain_count));

// True if this memprofd supports the agent's interface: its own version or the previous one, whose
// control block ends where followed_since is now.
bool is_our_build(const AgentBuild& build);

// Reads a control block, as part of a larger memory question.
class AgentStatusQuery {
 public:
  static constexpr std::size_t kPieces = 2;
  // Adds its pieces to a question; this object must outlive the question.
  void add_to(MemoryQuestion& question, std::uint64_t control_address);
  // read: number of pieces that were read. kOutOfRange: no control block is there; kDataLoss: the
  // agent is of another build.
  absl::StatusOr<AgentStatus> status(int pid, std::size_t read) const;

 private:
  memprof_agent_control block_{};
};

// Orders to an agent, written together and in the right order.
struct AgentOrders {
  std::optional<OwnerToken> owner;
  // Offsets of an OCaml 5 runtime; needed before the first session.
  std::optional<memprof_runtime_offsets> offsets;
  // The generation must be new, and the capture mode one that the agent supports
  // (capture_known_to). The session ends by itself unless AgentControl::renew() is called within
  // kLeaseNs.
  std::optional<SessionRequest> session;
};

// The capture mode that this agent supports: an agent of the previous interface uses runtime
// capture instead of agent capture.
memprof_capture_by capture_known_to(const AgentStatus& agent, memprof_capture_by wanted);

class AgentControl {
 public:
  // address: that of memprof_agent_control in the process.
  AgentControl(int pid, const WritableMemory& memory, std::uint64_t address)
      : pid_(pid), memory_(&memory), address_(address) {}

  // The same control block, accessed through another memory object.
  AgentControl through(const WritableMemory& memory) const { return {pid_, memory, address_}; }

  // kDataLoss: the agent there is of another build.
  absl::StatusOr<AgentStatus> status() const;
  // The tails of all used buffers, including empty tails. If a buffer is flushed while it is read,
  // its tail is omitted; its records arrive through the probe.
  absl::StatusOr<std::vector<AgentTail>> tails() const;
  // Running domains, among those that `now` lists.
  std::vector<DomainGc> domains(const AgentStatus& now) const;
  absl::Status give(const AgentOrders& orders) const;
  absl::Status renew() const;
  // Reads the owner; agent_owner.h has the rules.
  absl::Status read_owner(OwnerToken& token) const;
  static constexpr std::uint64_t kLeaseNs = 15'000'000'000;

 private:
  // The first fields of struct memprof_batch_buffer, and the batch's head before its first record.
  struct BufferHead {
    struct Counts {
      std::uint64_t first_seq = 0;
      std::uint32_t count = 0, generation = 0;
      std::uint64_t last_sample = 0;
    } counts;
    struct Batch {
      std::uint32_t words = 0, format = 0;
    } batch;
    void add_to(MemoryQuestion& question, std::uint64_t at);
  };
  // at: address of the buffer that head was read from. Returns nothing if the buffer was flushed
  // meanwhile.
  absl::StatusOr<std::optional<AgentTail>> tail(std::uint64_t at, std::uint32_t buffer,
                                                const BufferHead& head) const;
  absl::Status check_packed(std::uint32_t records, std::uint32_t words) const;
  template <typename T>
  absl::Status write(std::size_t offset, const T& value) const;

  int pid_;
  const WritableMemory* memory_;  // not owned
  std::uint64_t address_;
};

}  // namespace memprofd
