// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_control.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kBufferHeadBytes = offsetof(memprof_batch_buffer, records);
constexpr std::uint32_t kInterfaceBefore = 5;
constexpr std::size_t kBytesBefore = offsetof(memprof_agent_control, followed_since);
static_assert(MEMPROF_AGENT_ABI == kInterfaceBefore + 1);

absl::Status check_build(const memprof_agent_control& block, int pid) {
  const AgentBuild build{block.magic,        block.abi_version,  block.control_bytes,
                         block.buffer_bytes, block.buffer_count, block.domain_bytes,
                         block.domain_count};
  if (is_our_build(build)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("pid ", pid, " holds an agent of another build (interface ", block.abi_version,
                   ", this memprofd needs ", MEMPROF_AGENT_ABI, ")"));
}

absl::Status no_agent(int pid) {
  return absl::OutOfRangeError(absl::StrCat("pid ", pid, ": its agent is no longer mapped"));
}

absl::Status too_many(int pid, std::uint32_t records, std::uint32_t most) {
  return absl::DataLossError(absl::StrCat("pid ", pid, ": agent claims ", records,
                                          " unflushed records of at most ", most));
}

std::uint64_t buffer_at(const AgentStatus& now, std::uint32_t buffer) {
  return now.buffers + buffer * sizeof(memprof_batch_buffer);
}

}  // namespace

memprof_runtime_offsets runtime_offsets(const RuntimeAbi& abi) {
  return {.external_interrupt = abi.external_interrupt,
          .memprof = abi.memprof,
          .memprof_config = abi.memprof_config,
          .stat_words = abi.stats,
          .shared_heap = abi.shared_heap,
          .callstacks_stay = abi.callstacks_stay,
          .local_roots = static_cast<__u16>(abi.local_roots)};
}

bool is_our_build(const AgentBuild& build) {
  const bool same = build.abi_version == MEMPROF_AGENT_ABI &&
                    build.control_bytes == sizeof(memprof_agent_control);
  const bool before = build.abi_version == kInterfaceBefore && build.control_bytes == kBytesBefore;
  return build.magic == MEMPROF_AGENT_MAGIC && (same || before) &&
         build.buffer_bytes == sizeof(memprof_batch_buffer) &&
         build.buffer_count == MEMPROF_BUFFERS && build.domain_bytes == sizeof(memprof_domain) &&
         build.domain_count == MEMPROF_DOMAINS;
}

// The control block of an older interface may end before this data.
void AgentStatusQuery::add_to(MemoryQuestion& question, std::uint64_t control_address) {
  const auto bytes = std::as_writable_bytes(std::span(&block_, 1));
  question.about(control_address, bytes.first(kBytesBefore))
      .about(control_address + kBytesBefore, bytes.subspan(kBytesBefore));
}

absl::StatusOr<AgentStatus> AgentStatusQuery::status(int pid, std::size_t read) const {
  const memprof_agent_control& block = block_;
  if (read == 0) return no_agent(pid);
  RETURN_IF_ERROR(check_build(block, pid));
  AgentStatus result;
  if (block.abi_version != kInterfaceBefore) {
    if (read == 1) return no_agent(pid);
    result.followed_since = block.followed_since;
    result.unsampled_words = block.unsampled_words;
    result.callstacks_moved = block.callstacks_moved;
    result.walk_state = static_cast<memprof_walk_state>(block.walk_state);
    result.callstacks_cut = block.callstacks_cut;
    result.uncertain_deaths = block.uncertain_deaths;
  }
  result.owner = {block.owner[0], block.owner[1]};
  result.state = static_cast<memprof_agent_state>(block.state);
  result.rate = block.rate;
  result.running_capture = static_cast<memprof_capture_by>(block.running_capture);
  result.generation = block.generation;
  result.requested_generation = block.requested_generation;
  result.starts = block.starts;
  result.stops = block.stops;
  std::memcpy(result.pauses, block.pauses, sizeof result.pauses);
  result.conflicts = block.conflicts;
  result.domains_left_out = block.domains_left_out;
  result.program_stops = block.program_stops;
  std::memcpy(result.ended_words.data(), block.ended_words, sizeof result.ended_words);
  result.buffers_used = std::min(block.buffers_used, MEMPROF_BUFFERS);
  result.domains_used = std::min(block.domains_used, MEMPROF_DOMAINS);
  result.buffers = block.buffers;
  result.domains = block.domains;
  return result;
}

absl::StatusOr<AgentStatus> AgentControl::status() const {
  AgentStatusQuery status_query;
  MemoryQuestion question;
  status_query.add_to(question, address_);
  ASSIGN_OR_RETURN(const std::size_t read, question.ask_some(*memory_));
  return status_query.status(pid_, read);
}

absl::StatusOr<std::vector<AgentTail>> AgentControl::tails() const {
  ASSIGN_OR_RETURN(const AgentStatus now, status());
  std::vector<BufferHead> heads(now.buffers_used);
  MemoryQuestion question;
  for (std::uint32_t buffer = 0; buffer < now.buffers_used; ++buffer) {
    heads[buffer].add_to(question, buffer_at(now, buffer));
  }
  RETURN_IF_ERROR(question.ask(*memory_));
  std::vector<AgentTail> tails;
  for (std::uint32_t buffer = 0; buffer < now.buffers_used; ++buffer) {
    ASSIGN_OR_RETURN(std::optional<AgentTail> tail,
                     this->tail(buffer_at(now, buffer), buffer, heads[buffer]));
    if (tail) tails.push_back(*std::move(tail));
  }
  return tails;
}

std::vector<DomainGc> AgentControl::domains(const AgentStatus& now) const {
  static_assert(sizeof(DomainGc) == sizeof(memprof_domain));
  static_assert(offsetof(DomainGc, heap_bytes) == offsetof(memprof_domain, heap_bytes));
  static_assert(offsetof(DomainGc, base_words) == offsetof(memprof_domain, base_words));
  std::vector<DomainGc> domains(now.domains_used);
  if (!memory_->read(now.domains, std::as_writable_bytes(std::span(domains))).ok()) return {};
  std::erase_if(domains, [](const DomainGc& domain) { return domain.state == 0; });
  return domains;
}

// The agent counts a batch's records last, so they are read first.
void AgentControl::BufferHead::add_to(MemoryQuestion& question, std::uint64_t at) {
  static_assert(offsetof(memprof_batch_buffer, last_sample) == offsetof(Counts, last_sample) &&
                offsetof(memprof_batch_buffer, words) == sizeof(Counts));
  static_assert(offsetof(memprof_batch_buffer, format) ==
                offsetof(memprof_batch_buffer, words) + offsetof(Batch, format));
  question.about(at, counts).about(at + offsetof(memprof_batch_buffer, words), batch);
}

absl::StatusOr<std::optional<AgentTail>> AgentControl::tail(std::uint64_t at, std::uint32_t buffer,
                                                            const BufferHead& head) const {
  const auto& counts = head.counts;
  AgentTail tail{buffer, counts.first_seq, counts.generation, counts.last_sample, {}};
  if (counts.count == 0) return tail;
  MemoryQuestion question;
  if (head.batch.format == MEMPROF_BATCH_PACKED) {
    RETURN_IF_ERROR(check_packed(counts.count, head.batch.words));
    auto& packed = tail.batch.emplace<PackedTail>();
    packed.words.resize(head.batch.words);
    question.about(at + kBufferHeadBytes, packed.head)
        .about(at + offsetof(memprof_batch_buffer, packed.words),
               std::as_writable_bytes(std::span(packed.words)));
  } else {
    if (counts.count > MEMPROF_BATCH_RECORDS) {
      return too_many(pid_, counts.count, MEMPROF_BATCH_RECORDS);
    }
    auto& records = tail.batch.emplace<PlainTail>().records;
    records.resize(counts.count);
    question.about(at + kBufferHeadBytes, std::as_writable_bytes(std::span(records)));
  }
  std::uint64_t first_seq = 0;  // read last, to detect that the batch was flushed meanwhile
  RETURN_IF_ERROR(question.about(at, first_seq).ask(*memory_));
  if (first_seq != tail.first_seq) return std::nullopt;
  if (auto* packed = std::get_if<PackedTail>(&tail.batch)) packed->head.records = counts.count;
  return tail;
}

absl::Status AgentControl::check_packed(std::uint32_t records, std::uint32_t words) const {
  const bool fits = records <= MEMPROF_PACKED_RECORDS && words <= MEMPROF_PACKED_WORDS;
  return fits ? absl::OkStatus() : too_many(pid_, records, MEMPROF_PACKED_RECORDS);
}

template <typename T>
absl::Status AgentControl::write(std::size_t offset, const T& value) const {
  return memory_->write_value(address_ + offset, value);
}

absl::Status AgentControl::renew() const {
  return write<std::uint64_t>(offsetof(memprof_agent_control, requested_until_ns),
                              monotonic_ns() + kLeaseNs);
}

absl::Status AgentControl::read_owner(OwnerToken& token) const {
  static_assert(sizeof token == sizeof(memprof_agent_control::owner));
  return memory_->read_value(address_ + offsetof(memprof_agent_control, owner), token);
}

memprof_capture_by capture_known_to(const AgentStatus& agent, memprof_capture_by wanted) {
  if (wanted != MEMPROF_CAPTURE_BY_AGENT || agent.followed_since) return wanted;
  return MEMPROF_CAPTURE_BY_RUNTIME;
}

static_assert(sizeof(SessionRequest::capture) == sizeof(memprof_agent_control::requested_capture));

// The generation is written last, so that its readers see the data that belongs to it.
absl::Status AgentControl::give(const AgentOrders& orders) const {
  const auto at = [this](std::size_t offset) { return address_ + offset; };
  const SessionRequest session = orders.session.value_or(SessionRequest());
  const std::uint64_t until_ns = monotonic_ns() + kLeaseNs;
  MemoryOrder order;
  if (orders.owner) order.put(at(offsetof(memprof_agent_control, owner)), *orders.owner);
  if (orders.offsets) order.put(at(offsetof(memprof_agent_control, offsets)), *orders.offsets);
  if (orders.session) {
    order.put(at(offsetof(memprof_agent_control, requested_until_ns)), until_ns)
        .put(at(offsetof(memprof_agent_control, requested_rate)), session.rate)
        .put(at(offsetof(memprof_agent_control, requested_capture)), session.capture)
        .put(at(offsetof(memprof_agent_control, requested_generation)), session.generation);
  }
  return order.give(*memory_);
}

}  // namespace memprofd
