#include "daemon/attach/agent_control.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/discover/process_memory.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kHeadBytes = offsetof(memprof_agent_control, records);

// The head of the control block, in the type that names its fields.
struct Head {
  alignas(8) std::byte bytes[kHeadBytes];
  template <typename T>
  T get(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes + offset, sizeof(T));
    return value;
  }
};
#define HEAD_FIELD(head, field) \
  (head).get<decltype(memprof_agent_control::field)>(offsetof(memprof_agent_control, field))

absl::Status check_build(const Head& head, int pid) {
  memprof_agent_control block{};
  std::memcpy(&block, head.bytes, sizeof(head.bytes));
  if (is_our_build(block)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("pid ", pid, " holds an agent of another build (interface ",
                   HEAD_FIELD(head, abi_version), ", this memprofd speaks ", MEMPROF_AGENT_ABI,
                   "); restart the program or use the memprofd that came with its agent"));
}

}  // namespace

bool is_our_build(const memprof_agent_control& block) {
  return block.magic == MEMPROF_AGENT_MAGIC && block.abi_version == MEMPROF_AGENT_ABI &&
         block.control_bytes == sizeof(memprof_agent_control);
}

absl::StatusOr<AgentStatus> AgentControl::status() const {
  Head head;
  if (auto status = memory_->read(address_, head.bytes); !status.ok()) return status;
  if (auto status = check_build(head, pid_); !status.ok()) return status;
  AgentStatus result;
  result.state = static_cast<memprof_agent_state>(HEAD_FIELD(head, state));
  result.rate = HEAD_FIELD(head, rate);
  result.generation = HEAD_FIELD(head, generation);
  result.requested_generation = HEAD_FIELD(head, requested_generation);
  result.starts = HEAD_FIELD(head, starts);
  result.stops = HEAD_FIELD(head, stops);
  std::memcpy(result.pauses, head.bytes + offsetof(memprof_agent_control, pauses),
              sizeof(result.pauses));
  result.first_seq = HEAD_FIELD(head, first_seq);
  result.count = HEAD_FIELD(head, count);
  result.batch_generation = HEAD_FIELD(head, batch_generation);
  return result;
}

absl::StatusOr<AgentTail> AgentControl::tail() const {
  auto before = status();
  if (!before.ok()) return before.status();
  AgentTail tail{before->first_seq, before->batch_generation, {}};
  if (before->count == 0) return tail;
  if (before->count > MEMPROF_BATCH_RECORDS) {
    return absl::DataLossError(absl::StrCat("pid ", pid_, ": agent claims ", before->count,
                                            " unflushed records of at most ",
                                            MEMPROF_BATCH_RECORDS));
  }
  tail.records.resize(before->count);
  if (auto status =
          memory_->read(address_ + kHeadBytes, std::as_writable_bytes(std::span(tail.records)));
      !status.ok()) {
    return status;
  }
  std::uint64_t first_seq = 0;
  if (auto status =
          memory_->read_value(address_ + offsetof(memprof_agent_control, first_seq), first_seq);
      !status.ok()) {
    return status;
  }
  if (first_seq != tail.first_seq) return absl::UnavailableError("flushed while being read");
  return tail;
}

template <typename T>
absl::Status AgentControl::write(std::size_t offset, const T& value) const {
  return write_process_memory(pid_, address_ + offset,
                              std::as_bytes(std::span<const T, 1>(&value, 1)));
}

absl::Status AgentControl::renew() const {
  return write<std::uint64_t>(offsetof(memprof_agent_control, requested_until_ns),
                              monotonic_ns() + kLeaseNs);
}

absl::Status AgentControl::request(double rate, std::uint32_t generation) const {
  RETURN_IF_ERROR(renew());
  RETURN_IF_ERROR(write(offsetof(memprof_agent_control, requested_rate), rate));
  return write(offsetof(memprof_agent_control, requested_generation), generation);
}

}  // namespace memprofd
