#include "daemon/attach/agent_control.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/discover/process_memory.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kHeadBytes = offsetof(memprof_agent_control, buffers);
constexpr std::size_t kBufferHeadBytes = offsetof(memprof_batch_buffer, records);

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
  AgentBuild build;
  std::memcpy(&build, head.bytes, sizeof build);
  if (is_our_build(build)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("pid ", pid, " holds an agent of another build (interface ",
                   HEAD_FIELD(head, abi_version), ", this memprofd speaks ", MEMPROF_AGENT_ABI,
                   "); restart the program or use the memprofd that came with its agent"));
}

}  // namespace

bool is_our_build(const AgentBuild& build) {
  return build.magic == MEMPROF_AGENT_MAGIC && build.abi_version == MEMPROF_AGENT_ABI &&
         build.control_bytes == sizeof(memprof_agent_control);
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
  result.conflicts = HEAD_FIELD(head, conflicts);
  std::memcpy(result.ended_words.data(), head.bytes + offsetof(memprof_agent_control, ended_words),
              sizeof result.ended_words);
  result.buffers_used = std::min(HEAD_FIELD(head, buffers_used), MEMPROF_BUFFERS);
  return result;
}

absl::StatusOr<std::vector<AgentTail>> AgentControl::tails() const {
  ASSIGN_OR_RETURN(const AgentStatus now, status());
  std::vector<AgentTail> tails;
  for (std::uint32_t buffer = 0; buffer < now.buffers_used; ++buffer) {
    absl::StatusOr<AgentTail> tail = this->tail(buffer);
    if (absl::IsUnavailable(tail.status())) continue;
    if (!tail.ok()) return tail.status();
    if (!tail->records.empty() || !tail->words.empty()) tails.push_back(*std::move(tail));
  }
  return tails;
}

std::vector<DomainGc> AgentControl::domains(std::uint32_t buffers_used) const {
  constexpr std::size_t kState = offsetof(memprof_batch_buffer, domain_state);
  static_assert(offsetof(memprof_batch_buffer, base_words) ==
                kState + offsetof(DomainGc, base_words));
  static_assert(offsetof(memprof_batch_buffer, heap_bytes) ==
                kState + offsetof(DomainGc, heap_bytes));
  std::vector<DomainGc> domains;
  for (std::uint32_t i = 0; i < buffers_used; ++i) {
    DomainGc domain;
    const std::uint64_t at = address_ + kHeadBytes + i * sizeof(memprof_batch_buffer) + kState;
    if (memory_->read_value(at, domain).ok() && domain.state != 0) domains.push_back(domain);
  }
  return domains;
}

// kUnavailable when it was flushed meanwhile.
absl::StatusOr<AgentTail> AgentControl::tail(std::uint32_t buffer) const {
  const std::uint64_t at = address_ + kHeadBytes + buffer * sizeof(memprof_batch_buffer);
  struct {
    std::uint64_t first_seq;
    std::uint32_t count, generation;
  } head;
  RETURN_IF_ERROR(memory_->read_value(at, head));
  AgentTail tail{buffer, head.first_seq, head.generation, {}};
  if (head.count == 0) return tail;
  std::uint32_t words = 0;
  RETURN_IF_ERROR(memory_->read_value(at + offsetof(memprof_batch_buffer, packed_words), words));
  const std::uint32_t most = words == 0 ? MEMPROF_BATCH_RECORDS : MEMPROF_PACKED_RECORDS;
  if (head.count > most || words > MEMPROF_PACKED_WORDS) {
    return absl::DataLossError(absl::StrCat("pid ", pid_, ": agent claims ", head.count,
                                            " unflushed records of at most ", most));
  }
  if (words == 0) {
    tail.records.resize(head.count);
    RETURN_IF_ERROR(
        memory_->read(at + kBufferHeadBytes, std::as_writable_bytes(std::span(tail.records))));
  } else {
    RETURN_IF_ERROR(memory_->read_value(at + kBufferHeadBytes, tail.head));
    tail.head.records = head.count;
    tail.words.resize(words);
    RETURN_IF_ERROR(memory_->read(at + offsetof(memprof_batch_buffer, packed.words),
                                  std::as_writable_bytes(std::span(tail.words))));
  }
  std::uint64_t first_seq = 0;
  RETURN_IF_ERROR(memory_->read_value(at, first_seq));
  if (first_seq != tail.first_seq) return absl::UnavailableError("flushed while being read");
  return tail;
}

absl::Status AgentControl::tell(const memprof_runtime_offsets& offsets) const {
  return write(offsetof(memprof_agent_control, offsets), offsets);
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

absl::Status AgentControl::request(const SessionRequest& session) const {
  RETURN_IF_ERROR(renew());
  RETURN_IF_ERROR(write(offsetof(memprof_agent_control, requested_rate), session.rate));
  RETURN_IF_ERROR(
      write<std::uint32_t>(offsetof(memprof_agent_control, requested_capture), session.capture));
  return write(offsetof(memprof_agent_control, requested_generation), session.generation);
}

}  // namespace memprofd
