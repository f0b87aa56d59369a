// SPDX-License-Identifier: Apache-2.0
// The reader's side of memory that an agent shares (agent-lib/include/memprof_share_abi.h). The
// program may write anything there at any time: positions and lengths are checked, and only copies
// are decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_share_abi.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct ShareOptions {
  double rate = 0;  // samples per word
  memprof_capture_by capture = MEMPROF_CAPTURE_BY_RUNTIME;
  std::uint64_t ring_bytes = MEMPROF_SHARE_RING_BYTES;  // a multiple of the page size
};

// The process whose agent has taken the memory.
struct ShareTaker {
  int pid = 0;                     // in its own namespace
  std::string exe;                 // empty: the path is too long
  std::uint64_t callback_exn = 0;  // address of caml_callback_exn there
};

// Owned by one thread.
class SharedAgent {
 public:
  static constexpr char kMemoryName[] = "memprof-share";  // name of its memfd

  // kResourceExhausted, kUnavailable: memory of that kind cannot be created.
  static absl::StatusOr<SharedAgent> create(const ShareOptions& options);
  // Takes memory that the agent of a running program has made. kDataLoss: it is no such memory.
  static absl::StatusOr<SharedAgent> adopt(UniqueFd file);
  // kDataLoss, in one line.
  static absl::Status not_its_memory();

  // The descriptor that the program inherits; it stays open across exec.
  int descriptor() const { return file_.get(); }
  // Sets the offsets of an OCaml 5 runtime, before the program starts or once it has taken the
  // memory.
  void set_offsets(const memprof_runtime_offsets& offsets);
  // Resumes an OCaml 5 program that was started without offsets: either it has them now, or it is
  // refused.
  void answer();
  // Not set until a process has taken the memory.
  std::optional<ShareTaker> taker() const;
  // Requests the first session of memory that was adopted, for this reader. Returns its generation.
  absl::StatusOr<std::uint32_t> begin_session(double rate, const memprof_runtime_offsets& offsets);
  // Positions of the agent's buffers, before the first session.
  std::vector<BufferPosition> positions() const;
  // Renews the lease; otherwise the agent stops sampling after AgentControl::kLeaseNs.
  void renew();
  // Ends the session: the agent stops at its next callback.
  void end_session();

  // Passes events from the ring to the pipeline. Reads no more once the memory is damaged.
  void drain(Pipeline& pipeline);
  // The same, followed by the records of unfinished batches. ended_ns: CLOCK_MONOTONIC, when
  // sampling ended; 0: it goes on.
  void catch_up(Pipeline& pipeline, std::uint64_t ended_ns = 0);
  // Address of memprof_agent_control in the program; 0: no program has taken the memory.
  std::uint64_t control_address() const;
  // State reported by the agent. kOutOfRange: no program has taken the memory.
  absl::StatusOr<AgentStatus> status() const;
  // OCaml 5: its domains, as of that status.
  std::vector<DomainGc> domains(const AgentStatus& status) const;
  // True if the program has written data that no agent writes.
  bool damaged() const { return damaged_; }

 private:
  // The three parts of the agent's data, at the addresses that they have in the program.
  class Memory : public WritableMemory {
   public:
    Memory(std::byte* shared, const memprof_share& addresses);
    absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
    absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override;

   private:
    struct Part {
      std::uint64_t address, offset, bytes;
    };
    std::byte* find(std::uint64_t address, std::size_t bytes) const;
    std::byte* shared_;
    Part parts_[3];
  };
  class Unmap {
   public:
    explicit Unmap(std::size_t bytes = 0) : bytes_(bytes) {}
    void operator()(std::byte* shared) const;

   private:
    std::size_t bytes_;
  };

  SharedAgent(UniqueFd file, std::unique_ptr<std::byte, Unmap> shared, std::uint64_t ring_bytes)
      : file_(std::move(file)), shared_(std::move(shared)), ring_bytes_(ring_bytes) {}
  static absl::StatusOr<SharedAgent> map(UniqueFd file, std::uint64_t ring_bytes);
  memprof_share& head() const { return *reinterpret_cast<memprof_share*>(shared_.get()); }
  // Returns nothing while no process has taken the memory.
  std::optional<Memory> memory() const;
  AgentControl control(const Memory& memory) const;

  UniqueFd file_;
  std::unique_ptr<std::byte, Unmap> shared_;
  std::uint64_t ring_bytes_;
  std::uint64_t read_ = 0;  // our own position: the program may change the one in the memory
  bool damaged_ = false;
  std::vector<std::uint64_t> event_;  // a copy, aligned as the decoder wants it
};

}  // namespace memprofd
