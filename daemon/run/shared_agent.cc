// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/shared_agent.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bpf/events.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

absl::Status no_memory(std::string_view action, std::size_t bytes = 0) {
  const int error = errno;
  std::string remedy;
  if (error == EFBIG) {
    remedy = absl::StrCat("; raise the limit of file sizes (ulimit -f) to ",
                          format_bytes(static_cast<double>(bytes)), " or more");
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot ", absl::string_view(action.data(), action.size()),
                   " memory to share with the program: ", std::strerror(error), remedy));
}

template <typename T>
T load(const T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

void SharedAgent::Unmap::operator()(std::byte* shared) const { ::munmap(shared, bytes_); }

SharedAgent::Memory::Memory(std::byte* shared, const memprof_share& addresses)
    : shared_(shared),
      parts_{{addresses.control, MEMPROF_SHARE_CONTROL, MEMPROF_SHARE_CONTROL_BYTES},
             {addresses.domains, MEMPROF_SHARE_DOMAINS, MEMPROF_SHARE_DOMAINS_BYTES},
             {addresses.buffers, MEMPROF_SHARE_BUFFERS, MEMPROF_SHARE_BUFFERS_BYTES}} {}

std::byte* SharedAgent::Memory::find(std::uint64_t address, std::size_t bytes) const {
  for (const Part& part : parts_) {
    if (address >= part.address && bytes <= part.bytes &&
        address - part.address <= part.bytes - bytes) {
      return shared_ + part.offset + (address - part.address);
    }
  }
  return nullptr;
}

absl::Status SharedAgent::Memory::read(std::uint64_t address, std::span<std::byte> out) const {
  const std::byte* at = find(address, out.size());
  if (at == nullptr) return absl::OutOfRangeError("the agent does not share that memory");
  std::memcpy(out.data(), at, out.size());
  return absl::OkStatus();
}

absl::Status SharedAgent::Memory::write(std::uint64_t address,
                                        std::span<const std::byte> bytes) const {
  std::byte* at = find(address, bytes.size());
  if (at == nullptr) return absl::OutOfRangeError("the agent does not share that memory");
  std::memcpy(at, bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<SharedAgent> SharedAgent::create(const ShareOptions& options) {
  UniqueFd file(::memfd_create(kMemoryName, MFD_ALLOW_SEALING));
  const std::size_t bytes = MEMPROF_SHARE_RING + options.ring_bytes;
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return no_memory("make", bytes);
  }
  // Without the seal any holder of the descriptor could shorten the file and so crash the program.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return no_memory("seal");
  }
  ASSIGN_OR_RETURN(SharedAgent agent, map(std::move(file), options.ring_bytes));
  memprof_share& head = agent.head();
  head.magic = MEMPROF_SHARE_MAGIC;
  head.abi_version = MEMPROF_AGENT_ABI;
  head.capture = options.capture;
  head.ring_bytes = options.ring_bytes;
  head.rate = options.rate;
  head.until_ns = monotonic_ns() + AgentControl::kLeaseNs;
  std::memcpy(head.owner, &OwnerToken::ours(), sizeof head.owner);
  return agent;
}

absl::StatusOr<SharedAgent> SharedAgent::map(UniqueFd file, std::uint64_t ring_bytes) {
  const std::size_t bytes = MEMPROF_SHARE_RING + ring_bytes;
  void* shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (shared == MAP_FAILED) return no_memory("map");
  return SharedAgent(std::move(file), {static_cast<std::byte*>(shared), Unmap(bytes)}, ring_bytes);
}

absl::Status SharedAgent::not_its_memory() {
  return absl::DataLossError(
      "the program offers another file than its agent's memory: it has overwritten the agent's "
      "data; restart the program");
}

// A file that can become shorter could end this process.
absl::StatusOr<SharedAgent> SharedAgent::adopt(UniqueFd file) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat info {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (::fstat(file.get(), &info) != 0 || seals < 0 || (seals & kSeals) != kSeals ||
      info.st_size != static_cast<off_t>(MEMPROF_SHARE_RING + MEMPROF_SHARE_RING_BYTES)) {
    return not_its_memory();
  }
  return map(std::move(file), MEMPROF_SHARE_RING_BYTES);
}

std::optional<SharedAgent::Memory> SharedAgent::memory() const {
  if (load(head().control) == 0) return std::nullopt;
  return Memory(shared_.get(), head());
}

AgentControl SharedAgent::control(const Memory& memory) const {
  return AgentControl(static_cast<int>(load(head().pid)), memory, load(head().control));
}

void SharedAgent::set_offsets(const memprof_runtime_offsets& offsets) {
  head().offsets = offsets;
  const auto shared = memory();
  if (shared) control(*shared).give({.offsets = offsets}).IgnoreError();
}

void SharedAgent::answer() { __atomic_store_n(&head().answered, 1, __ATOMIC_RELEASE); }

std::optional<ShareTaker> SharedAgent::taker() const {
  if (load(head().control) == 0) return std::nullopt;
  ShareTaker taker{.pid = static_cast<int>(load(head().pid)),
                   .callback_exn = load(head().callback_exn)};
  const char* exe = head().exe;
  taker.exe.assign(exe, ::strnlen(exe, MEMPROF_SHARE_PATH));
  if (taker.exe.size() == MEMPROF_SHARE_PATH) taker.exe.clear();
  return taker;
}

absl::StatusOr<std::uint32_t> SharedAgent::begin_session(double rate,
                                                         const memprof_runtime_offsets& offsets) {
  const auto shared = memory();
  if (!shared) return absl::OutOfRangeError("the program does not share its agent's memory");
  const AgentControl control = this->control(*shared);
  ASSIGN_OR_RETURN(const AgentStatus status, control.status());
  const SessionRequest session{
      .rate = rate, .generation = status.next_generation(), .capture = MEMPROF_CAPTURE_BY_RUNTIME};
  std::memcpy(head().owner, &OwnerToken::ours(), sizeof head().owner);
  RETURN_IF_ERROR(
      control.give({.owner = OwnerToken::ours(), .offsets = offsets, .session = session}));
  return session.generation;
}

std::vector<BufferPosition> SharedAgent::positions() const {
  const auto shared = memory();
  const auto tails = shared ? control(*shared).tails()
                            : absl::StatusOr<std::vector<AgentTail>>(std::vector<AgentTail>());
  std::vector<BufferPosition> positions;
  if (!tails.ok()) return positions;
  for (const AgentTail& tail : *tails) {
    positions.resize(tail.buffer + 1);
    positions.back() = {tail.first_seq, tail.sampled};
  }
  return positions;
}

void SharedAgent::renew() {
  __atomic_store_n(&head().until_ns, monotonic_ns() + AgentControl::kLeaseNs, __ATOMIC_RELEASE);
  const auto shared = memory();
  if (shared) control(*shared).renew().IgnoreError();
}

void SharedAgent::end_session() {
  const auto status = this->status();
  if (!status.ok()) return;  // nothing to end
  // The next reader continues from this generation.
  control(*memory())
      .give({.session = SessionRequest{.generation = status->next_generation()}})
      .IgnoreError();
}

void SharedAgent::drain(Pipeline& pipeline) {
  const std::byte* ring = shared_.get() + MEMPROF_SHARE_RING;
  const std::uint64_t end = load(head().written);
  damaged_ = damaged_ || end - read_ > ring_bytes_ || end % 8 != 0;
  while (!damaged_ && read_ < end) {
    const std::uint64_t offset = read_ % ring_bytes_, left = ring_bytes_ - offset;
    std::uint64_t length = 0;
    std::memcpy(&length, ring + offset, sizeof length);
    const bool skip = length == MEMPROF_SHARE_SKIP;
    const bool too_long = !skip && length > sizeof(memprof_packed_batch);
    const std::uint64_t bytes = skip ? left : too_long ? 0 : sizeof length + rounded(length);
    if (too_long || bytes > left || bytes > end - read_) {
      damaged_ = true;
      break;
    }
    if (!skip) {
      event_.resize(rounded(length) / 8 + 1);  // events may be empty
      std::memcpy(event_.data(), ring + offset + sizeof length, length);
      pipeline.on_ring_record(std::as_bytes(std::span(event_)).first(length));
    }
    read_ += bytes;
    __atomic_store_n(&head().read, read_, __ATOMIC_RELEASE);
  }
}

void SharedAgent::catch_up(Pipeline& pipeline, std::uint64_t ended_ns) {
  const std::uint64_t asked_at_ns = monotonic_ns();
  std::vector<AgentTail> tails;
  if (const auto shared = memory()) {
    if (auto read = control(*shared).tails(); read.ok()) tails = *std::move(read);
  }
  drain(pipeline);
  pipeline.on_tails(tails, asked_at_ns);
  if (!tails.empty()) pipeline.advance_clock_to(ended_ns != 0 ? ended_ns : asked_at_ns);
}

std::uint64_t SharedAgent::control_address() const {
  return __atomic_load_n(&head().control, __ATOMIC_ACQUIRE);
}

absl::StatusOr<AgentStatus> SharedAgent::status() const {
  const auto shared = memory();
  if (!shared) return absl::OutOfRangeError("no program has taken the shared memory");
  return control(*shared).status();
}

std::vector<DomainGc> SharedAgent::domains(const AgentStatus& status) const {
  const auto shared = memory();
  return shared ? control(*shared).domains(status) : std::vector<DomainGc>();
}

}  // namespace memprofd
