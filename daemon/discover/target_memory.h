// SPDX-License-Identifier: Apache-2.0
// The memory of a target, through one descriptor of /proc/PID/mem. It belongs to the address space
// that the process had at open(): after an exec, or when the pid is reused, the other program can
// neither be read nor written through it. The mark (MemoryFiles) shows whether the process still
// has this address space, because another process may share it (CLONE_VM).
//
// All reads and writes of targets go through here. They neither stop the process nor change its
// state. They need ptrace permission and, for a process of another user, CAP_DAC_OVERRIDE, because
// only that user may open the file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/memory/memory_window.h"
#include "daemon/discover/memory_channel.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// An address range to read, and the buffer that it fills.
struct MemoryPiece {
  std::uint64_t address = 0;
  std::span<std::byte> out;
};

// An address range to write, and its contents.
struct WrittenPiece {
  std::uint64_t address = 0;
  std::span<const std::byte> bytes;
};

// Memory that can read several pieces per request.
class PieceReader {
 public:
  virtual ~PieceReader() = default;
  virtual absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const = 0;
};
class PieceWriter {
 public:
  virtual ~PieceWriter() = default;
  virtual absl::Status write_pieces(std::span<const WrittenPiece> pieces) const = 0;
};

// Fills pieces in order, up to the first that is incomplete, and returns their number. The contents
// of later pieces are unspecified. Returns the other errors of MemoryReader::read(). For a memory
// without this capability, each piece is one read.
absl::StatusOr<std::size_t> read_pieces(const MemoryReader& memory,
                                        std::span<const MemoryPiece> pieces);
// The same for callers that only check whether data is unchanged; a quarter of the cost for a
// target's memory.
absl::StatusOr<std::size_t> peek_pieces(const MemoryReader& memory,
                                        std::span<const MemoryPiece> pieces);

// Values that are read together, because each request needs a switch to the server and back.
class MemoryQuestion {
 public:
  template <typename T>
  MemoryQuestion& about(std::uint64_t address, T& out) {
    pieces_.push_back({address, std::as_writable_bytes(std::span<T, 1>(&out, 1))});
    return *this;
  }
  MemoryQuestion& about(std::uint64_t address, std::span<std::byte> out) {
    pieces_.push_back({address, out});
    return *this;
  }
  // Reads the pieces in order and returns how many complete ones there are at the front; errors as
  // for read_pieces().
  absl::StatusOr<std::size_t> ask_some(const MemoryReader& memory) const {
    return read_pieces(memory, pieces_);
  }
  // kOutOfRange if a piece could not be read.
  absl::Status ask(const MemoryReader& memory) const;

 private:
  std::vector<MemoryPiece> pieces_;
};

// Values that are written together and in order: a reader that sees one sees all earlier ones. For
// a target's memory, nothing is written unless all of them are mapped. The values must outlive the
// call.
class MemoryOrder {
 public:
  template <typename T>
  MemoryOrder& put(std::uint64_t address, const T& value) {
    pieces_.push_back({address, std::as_bytes(std::span<const T, 1>(&value, 1))});
    return *this;
  }
  // Returns the errors of WritableMemory::write(); kInvalidArgument for more pieces than a server
  // takes at once. For a memory without this capability, each piece is one write.
  absl::Status give(const WritableMemory& memory) const;

 private:
  std::vector<WrittenPiece> pieces_;
};

// A page of a file whose file system hangs never arrives. So a process of its own does the
// transfers (memory_server.h), and a caller stops waiting after a time: the answer is then
// kDeadlineExceeded, soon also to all further calls, until that page has come.
//
// Other errors: kNotFound when the program has ended or has replaced itself (exec),
// kOutOfRange when part of the range is not mapped (a partial transfer is an error; of a
// write, what was written stays, and what is late may be written yet).
// May be used by several threads at once.
class TargetMemory final : public WritableMemory,
                           public PieceReader,
                           public PieceWriter,
                           public MemoryViewer {
 public:
  // proc_root is "/proc", or a fake tree in tests. kNotFound, kPermissionDenied, kResourceExhausted
  // if the memory servers of too many ended targets still hang.
  static absl::StatusOr<std::unique_ptr<TargetMemory>> open(int pid,
                                                            const std::string& proc_root = "/proc");

  // Like open(), but view() may also be called.
  static absl::StatusOr<std::unique_ptr<TargetMemory>> open_to_view(int pid);

  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  // These two are several times as fast. The caller must know that the memory is in mappings
  // without a file, such as those of a stopped process, because a page of a hung file system would
  // block other readers of that address space as well. kUnimplemented if it was not opened with
  // open_to_view().
  absl::StatusOr<std::size_t> read_pieces_without_files(std::span<const MemoryPiece> pieces) const;
  absl::StatusOr<std::span<const std::byte>> view(std::uint64_t address,
                                                  std::size_t bytes) const override;
  // Reads as many pieces per request as a server takes, which saves waiting for it.
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override;
  absl::StatusOr<std::size_t> peek_pieces(std::span<const MemoryPiece> pieces) const;
  // Also writes to pages that the program may not write, as a private copy: the caller must check
  // the addresses.
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override;
  absl::Status write_pieces(std::span<const WrittenPiece> pieces) const override;

  // Grows the stack as the program itself would.
  absl::Status write_stack(std::uint64_t address, std::span<const std::byte> bytes) const;

  // The same memory for callers that also serve other targets: they wait at most a tenth of a
  // second.
  const WritableMemory& quick() const { return quick_; }

  // The mappings of this address space.
  absl::StatusOr<std::vector<Mapping>> maps() const;

  // kNotFound when the address space has gone: by the end of the program, or by exec.
  absl::Status check() const;
  // Time since the last answer while the target is silent; 0 otherwise. Data read before is that
  // old.
  std::chrono::nanoseconds silent_for() const { return channel_.silent_for(); }
  // One line that explains why the memory does not respond.
  absl::Status silent() const;

 private:
  class Quick final : public WritableMemory, public PieceReader, public PieceWriter {
   public:
    explicit Quick(const TargetMemory& memory) : memory_(memory) {}
    absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
    absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override;
    absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override;
    absl::Status write_pieces(std::span<const WrittenPiece> pieces) const override;

   private:
    const TargetMemory& memory_;
  };

  TargetMemory(int pid, UniqueFd server, std::optional<MemoryWindow> window)
      : pid_(pid), channel_(std::move(server)), window_(std::move(window)) {}
  static absl::StatusOr<std::unique_ptr<TargetMemory>> open(int pid, const std::string& proc_root,
                                                            std::optional<MemoryWindow> window);
  absl::Status gone() const;
  absl::Status not_mapped(std::size_t bytes, std::uint64_t address) const;
  absl::Status read(std::uint64_t address, std::span<std::byte> out,
                    std::chrono::nanoseconds patience) const;
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes,
                     std::chrono::nanoseconds patience,
                     MemoryRequest::What what = MemoryRequest::kWrite) const;
  absl::Status write_pieces(std::span<const WrittenPiece> pieces,
                            std::chrono::nanoseconds patience) const;
  absl::Status transfer(MemoryRequest request, std::span<const std::byte> in,
                        std::span<std::byte> out, std::chrono::nanoseconds patience) const;
  absl::StatusOr<std::size_t> read_pieces(
      std::span<const MemoryPiece> pieces, std::chrono::nanoseconds patience,
      MemoryRequest::What what = MemoryRequest::kReadPieces) const;
  // Reads the pieces that a server takes at once and returns how many were filled.
  absl::StatusOr<std::size_t> read_some(std::span<const MemoryPiece> pieces,
                                        std::chrono::nanoseconds patience,
                                        MemoryRequest::What what) const;
  absl::StatusOr<std::string> read_file(MemoryRequest::What what) const;
  absl::Status failure(MemoryChannel::Outcome outcome) const;

  int pid_;
  mutable MemoryChannel channel_;
  const std::optional<MemoryWindow> window_;  // of what can be viewed
  Quick quick_{*this};
};

}  // namespace memprofd
