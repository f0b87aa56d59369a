// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/target_memory.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{3000};
constexpr milliseconds kQuickPatience{100};
constexpr auto kMaxAddress = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
// A maps file of a big process has some 10,000 lines of 100 bytes.
constexpr std::size_t kMaxMapsBytes = 64u << 20;
static_assert(MemoryViewer::kMaxViewBytes == kMemoryWindowBytes);

absl::StatusOr<UniqueFd> open_file(const ProcFs& proc, int pid, const char* name, int mode) {
  UniqueFd file(::open(proc.path(pid, name).c_str(), mode | O_CLOEXEC));
  if (!file) return process_error(pid, errno, fmt::format("open {}", name));
  return file;
}

// Address of the 16 random bytes that the kernel gives to each program; 0: unknown. After an exec
// they belong to the new program and differ from those in this memory.
std::uint64_t mark_of(const ProcFs& proc, int pid) {
  const UniqueFd file(::open(proc.path(pid, "auxv").c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_auxv_t entries[64] = {};
  const ssize_t bytes = file ? ::read(file.get(), entries, sizeof entries) : 0;
  const std::size_t count = bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof *entries : 0;
  for (const Elf64_auxv_t& entry : std::span(entries).first(count)) {
    if (entry.a_type == AT_RANDOM) return entry.a_un.a_val;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::size_t> read_pieces(const MemoryReader& memory,
                                        std::span<const MemoryPiece> pieces) {
  if (const auto* at_once = dynamic_cast<const PieceReader*>(&memory)) {
    return at_once->read_pieces(pieces);
  }
  std::size_t done = 0;
  for (; done < pieces.size(); ++done) {
    const absl::Status status = memory.read(pieces[done].address, pieces[done].out);
    if (absl::IsOutOfRange(status)) break;
    if (!status.ok()) return status;
  }
  return done;
}

absl::Status MemoryQuestion::ask(const MemoryReader& memory) const {
  const absl::StatusOr<std::size_t> read = ask_some(memory);
  if (!read.ok()) return read.status();
  if (*read == pieces_.size()) return absl::OkStatus();
  const MemoryPiece& missing = pieces_[*read];
  return absl::OutOfRangeError(fmt::format("cannot read {} bytes at {:#x}: not all mapped",
                                           missing.out.size(), missing.address));
}

absl::Status MemoryOrder::give(const WritableMemory& memory) const {
  if (const auto* at_once = dynamic_cast<const PieceWriter*>(&memory)) {
    return at_once->write_pieces(pieces_);
  }
  for (const WrittenPiece& piece : pieces_) {
    RETURN_IF_ERROR(memory.write(piece.address, piece.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> peek_pieces(const MemoryReader& memory,
                                        std::span<const MemoryPiece> pieces) {
  const auto* target = dynamic_cast<const TargetMemory*>(&memory);
  return target != nullptr ? target->peek_pieces(pieces) : read_pieces(memory, pieces);
}

absl::StatusOr<std::unique_ptr<TargetMemory>> TargetMemory::open(int pid,
                                                                 const std::string& proc_root) {
  return open(pid, proc_root, std::nullopt);
}

absl::StatusOr<std::unique_ptr<TargetMemory>> TargetMemory::open_to_view(int pid) {
  ASSIGN_OR_RETURN(MemoryWindow window, MemoryWindow::make());
  return open(pid, "/proc", std::move(window));
}

absl::StatusOr<std::unique_ptr<TargetMemory>> TargetMemory::open(
    int pid, const std::string& proc_root, std::optional<MemoryWindow> window) {
  if (MemoryChannel::abandoned() >= MemoryChannel::kMaxAbandoned) {
    return absl::ResourceExhaustedError(
        fmt::format("pid {}: the memory of {} targets before it still does not answer: which file "
                    "system hangs (FUSE, NFS)?",
                    pid, MemoryChannel::kMaxAbandoned));
  }
  const ProcFs proc(proc_root);
  MemoryFiles files{.pid = pid};
  ASSIGN_OR_RETURN(files.mem, open_file(proc, pid, "mem", O_RDWR));
  ASSIGN_OR_RETURN(files.maps, open_file(proc, pid, "maps", O_RDONLY));
  files.mark = mark_of(proc, pid);
  if (window) files.window = window->take_file();
  ASSIGN_OR_RETURN(UniqueFd server, start_memory_server(files));
  return std::unique_ptr<TargetMemory>(new TargetMemory(pid, std::move(server), std::move(window)));
}

absl::Status TargetMemory::gone() const {
  return absl::NotFoundError(fmt::format("pid {} ended or started another program (exec)", pid_));
}

absl::Status TargetMemory::silent() const {
  return absl::DeadlineExceededError(
      fmt::format("pid {}: its memory does not answer: a page of a file whose file system hangs "
                  "(FUSE, NFS)?",
                  pid_));
}

absl::Status TargetMemory::failure(MemoryChannel::Outcome outcome) const {
  if (outcome == MemoryChannel::Outcome::kLate) return silent();
  if (const int error = channel_.why_no_server(); error != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot fork to read the memory of pid {}: {}; raise the limit of processes "
                    "(TasksMax=, ulimit -u), or free memory",
                    pid_, strerror(error)));
  }
  return absl::UnavailableError(fmt::format(
      "pid {}: the process that reads its memory has ended (killed?): attach again", pid_));
}

// Splits the request into pieces that a server accepts. A read returns 0 bytes if the address space
// has been destroyed, and EIO if pages are missing.
absl::Status TargetMemory::transfer(MemoryRequest request, std::span<const std::byte> in,
                                    std::span<std::byte> out,
                                    std::chrono::nanoseconds patience) const {
  const std::size_t size = std::max(in.size(), out.size());
  const std::uint64_t begin = request.address;
  MemoryAnswer answer;
  for (std::size_t done = 0; done < size; done += answer.bytes) {
    request.address = begin + done;
    request.bytes = static_cast<std::uint32_t>(
        std::min<std::size_t>(size - done, std::size_t{kMaxMemoryTransfer}));
    const auto outcome =
        channel_.call(request, in.empty() ? in : in.subspan(done, request.bytes),
                      out.empty() ? out : out.subspan(done, request.bytes), answer, patience);
    if (outcome != MemoryChannel::Outcome::kAnswered) return failure(outcome);
    if (answer.bytes == request.bytes) continue;
    return answer.error == 0 ? gone() : absl::OutOfRangeError("not all mapped");
  }
  return absl::OkStatus();
}

absl::Status TargetMemory::not_mapped(std::size_t bytes, std::uint64_t address) const {
  return absl::OutOfRangeError(
      fmt::format("cannot read {} bytes at {:#x} of pid {}: not all mapped", bytes, address, pid_));
}

absl::Status TargetMemory::read(std::uint64_t address, std::span<std::byte> out,
                                std::chrono::nanoseconds patience) const {
  const absl::Status status =
      address > kMaxAddress - out.size()
          ? absl::OutOfRangeError("")
          : transfer({.address = address, .what = MemoryRequest::kRead}, {}, out, patience);
  return absl::IsOutOfRange(status) ? not_mapped(out.size(), address) : status;
}

absl::StatusOr<std::span<const std::byte>> TargetMemory::view(std::uint64_t address,
                                                              std::size_t bytes) const {
  if (!window_) return absl::UnimplementedError("this memory cannot be viewed");
  if (bytes > kMemoryWindowBytes) return absl::InvalidArgumentError("more than a window shows");
  if (address > kMaxAddress - bytes) return not_mapped(bytes, address);
  MemoryAnswer answer;
  const auto outcome = channel_.call({.address = address,
                                      .bytes = static_cast<std::uint32_t>(bytes),
                                      .what = MemoryRequest::kView},
                                     {}, {}, answer, kPatience);
  if (outcome != MemoryChannel::Outcome::kAnswered) return failure(outcome);
  if (answer.bytes == bytes) return window_->bytes().first(bytes);
  return answer.error == 0 ? gone() : not_mapped(bytes, address);
}

absl::StatusOr<std::size_t> TargetMemory::read_some(std::span<const MemoryPiece> pieces,
                                                    std::chrono::nanoseconds patience,
                                                    MemoryRequest::What what) const {
  std::vector<MemoryPieceRequest> list;
  std::size_t bytes = 0;
  for (const MemoryPiece& piece : pieces) {
    list.push_back({piece.address, piece.out.size()});
    bytes += piece.out.size();
  }
  // Keeps the buffer, because the allocator trims its memory whenever a block of this size is
  // freed.
  thread_local std::vector<std::byte> read;
  read.resize(std::max(read.size(), bytes));
  MemoryAnswer answer;
  const MemoryRequest request{
      .bytes = static_cast<std::uint32_t>(list.size() * sizeof(MemoryPieceRequest)), .what = what};
  const auto outcome = channel_.call(request, std::as_bytes(std::span(list)),
                                     std::span(read).first(bytes), answer, patience);
  if (outcome != MemoryChannel::Outcome::kAnswered) return failure(outcome);
  std::size_t done = 0, filled = 0;
  for (; done < pieces.size(); ++done) {
    const std::span<std::byte> out = pieces[done].out;
    if (filled + out.size() > answer.bytes) break;
    std::copy_n(read.begin() + static_cast<std::ptrdiff_t>(filled), out.size(), out.begin());
    filled += out.size();
  }
  if (done < pieces.size() && answer.error == 0 && answer.bytes == 0) RETURN_IF_ERROR(check());
  return done;
}

absl::StatusOr<std::size_t> TargetMemory::read_pieces(std::span<const MemoryPiece> pieces,
                                                      std::chrono::nanoseconds patience,
                                                      MemoryRequest::What what) const {
  std::size_t done = 0;
  while (done < pieces.size()) {
    std::size_t count = 0, bytes = 0;
    while (done + count < pieces.size() && count < kMaxMemoryPieces &&
           pieces[done + count].out.size() <= kMaxMemoryTransfer - bytes) {
      bytes += pieces[done + count++].out.size();
    }
    if (count == 0) return absl::InvalidArgumentError("a piece is larger than a transfer");
    ASSIGN_OR_RETURN(const std::size_t read,
                     read_some(pieces.subspan(done, count), patience, what));
    done += read;
    if (read < count) break;
  }
  return done;
}

absl::Status TargetMemory::write(std::uint64_t address, std::span<const std::byte> bytes,
                                 std::chrono::nanoseconds patience,
                                 MemoryRequest::What what) const {
  const absl::Status status =
      address > kMaxAddress - bytes.size()
          ? absl::OutOfRangeError("")
          : transfer({.address = address, .what = what}, bytes, {}, patience);
  if (!absl::IsOutOfRange(status)) return status;
  return absl::OutOfRangeError(fmt::format(
      "cannot write {} bytes at {:#x} of pid {}: not all mapped", bytes.size(), address, pid_));
}

absl::Status TargetMemory::write_pieces(std::span<const WrittenPiece> pieces,
                                        std::chrono::nanoseconds patience) const {
  std::vector<MemoryPieceRequest> list;
  std::vector<std::byte> data;
  for (const WrittenPiece& piece : pieces) {
    list.push_back({piece.address, piece.bytes.size()});
    data.insert(data.end(), piece.bytes.begin(), piece.bytes.end());
  }
  const auto head = std::as_bytes(std::span(list));
  const std::size_t bytes = data.size();
  data.insert(data.begin(), head.begin(), head.end());
  if (list.size() > kMaxMemoryPieces || data.size() > kMaxMemoryTransfer) {
    return absl::InvalidArgumentError("more is to be written than a transfer takes");
  }
  MemoryAnswer answer;
  const MemoryRequest request{.address = list.size(),
                              .bytes = static_cast<std::uint32_t>(data.size()),
                              .what = MemoryRequest::kWritePieces};
  const auto outcome = channel_.call(request, data, {}, answer, patience);
  if (outcome != MemoryChannel::Outcome::kAnswered) return failure(outcome);
  if (answer.bytes == bytes) return absl::OkStatus();
  if (answer.error == 0) return gone();
  return absl::OutOfRangeError(
      fmt::format("cannot write {} places of pid {} from {:#x} on: not all "
                  "mapped",
                  list.size(), pid_, list.front().address));
}

absl::Status TargetMemory::read(std::uint64_t address, std::span<std::byte> out) const {
  return read(address, out, kPatience);
}

absl::StatusOr<std::size_t> TargetMemory::read_pieces(std::span<const MemoryPiece> pieces) const {
  return read_pieces(pieces, kPatience);
}

absl::StatusOr<std::size_t> TargetMemory::peek_pieces(std::span<const MemoryPiece> pieces) const {
  return read_pieces(pieces, kPatience, MemoryRequest::kPeekPieces);
}

absl::StatusOr<std::size_t> TargetMemory::read_pieces_without_files(
    std::span<const MemoryPiece> pieces) const {
  return read_pieces(pieces, kPatience, MemoryRequest::kReadPiecesWithoutFiles);
}

absl::Status TargetMemory::write(std::uint64_t address, std::span<const std::byte> bytes) const {
  return write(address, bytes, kPatience);
}

absl::Status TargetMemory::write_pieces(std::span<const WrittenPiece> pieces) const {
  return write_pieces(pieces, kPatience);
}

absl::Status TargetMemory::write_stack(std::uint64_t address,
                                       std::span<const std::byte> bytes) const {
  return write(address, bytes, kPatience, MemoryRequest::kWriteStack);
}

absl::Status TargetMemory::Quick::read(std::uint64_t address, std::span<std::byte> out) const {
  return memory_.read(address, out, kQuickPatience);
}

absl::StatusOr<std::size_t> TargetMemory::Quick::read_pieces(
    std::span<const MemoryPiece> pieces) const {
  return memory_.read_pieces(pieces, kQuickPatience);
}

absl::Status TargetMemory::Quick::write(std::uint64_t address,
                                        std::span<const std::byte> bytes) const {
  return memory_.write(address, bytes, kQuickPatience);
}

absl::Status TargetMemory::Quick::write_pieces(std::span<const WrittenPiece> pieces) const {
  return memory_.write_pieces(pieces, kQuickPatience);
}

absl::StatusOr<std::string> TargetMemory::read_file(MemoryRequest::What what) const {
  std::string text;
  MemoryAnswer answer;
  do {
    const std::size_t done = text.size();
    if (done >= kMaxMapsBytes) return absl::ErrnoToStatus(EFBIG, fmt::format("pid {}", pid_));
    text.resize(done + kMaxMemoryTransfer);
    const auto outcome =
        channel_.call({.address = done, .bytes = kMaxMemoryTransfer, .what = what}, {},
                      std::as_writable_bytes(std::span(text)).subspan(done), answer, kPatience);
    if (outcome != MemoryChannel::Outcome::kAnswered) return failure(outcome);
    text.resize(done + answer.bytes);
    if (answer.error != 0) return process_error(pid_, answer.error, "look into the memory");
  } while (answer.bytes != 0);
  return text;
}

absl::StatusOr<std::vector<Mapping>> TargetMemory::maps() const {
  ASSIGN_OR_RETURN(const std::string text, read_file(MemoryRequest::kMaps));
  if (text.empty()) return gone();
  return parse_maps(text);
}

// Reads address 0: an existing address space answers even if nothing is mapped there.
absl::Status TargetMemory::check() const {
  std::byte byte;
  const absl::Status status = read(0, std::span(&byte, 1));
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
}

}  // namespace memprofd
