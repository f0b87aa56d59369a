// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory/memory_service.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "daemon/util/clock.h"

namespace memprofd {
namespace {

struct Message {
  MemoryRequest request;
  MemoryAnswer answer;
  alignas(8) std::byte data[kMaxMemoryTransfer];
};

bool are_pieces(MemoryRequest::What what) {
  return what == MemoryRequest::kReadPieces || what == MemoryRequest::kReadPiecesWithoutFiles ||
         what == MemoryRequest::kPeekPieces;
}

// The number of these bytes that are present, as the program itself would see them; -1: errno.
ssize_t bring_in(const MemoryService& service, const iovec* remote, std::size_t pieces) {
  static std::byte scratch[kMaxMemoryTransfer];
  iovec local{scratch, sizeof scratch};
  return ::process_vm_readv(service.pid, &local, 1, remote, pieces, 0);
}

// Brings in all pages. Returns 0 or the errno.
int bring_in(const MemoryService& service, const Message& message) {
  const MemoryRequest& request = message.request;
  const iovec remote{std::bit_cast<void*>(request.address), request.bytes};
  const ssize_t n = bring_in(service, &remote, 1);
  if (n < 0) return errno;
  return n == static_cast<ssize_t>(request.bytes) ? 0 : EFAULT;
}

// True if the process with the pid still has the address space of these files, according to its
// mark. The program may overwrite the mark, but cannot forge that of another program.
bool is_of_these_files(const MemoryService& service, const std::byte* mark) {
  static std::byte known[kMemoryMarkBytes];
  if (std::memcmp(mark, known, sizeof known) == 0) return true;
  const ssize_t n = ::pread(service.mem(), known, sizeof known, static_cast<off_t>(service.mark));
  return n == static_cast<ssize_t>(sizeof known) && std::memcmp(mark, known, sizeof known) == 0;
}

// After an exec another process may keep the old address space alive (CLONE_VM).
bool has_left(const MemoryService& service) {
  if (service.mark == 0) return false;
  std::byte mark[kMemoryMarkBytes];
  const iovec local{mark, sizeof mark};
  const iovec remote{std::bit_cast<void*>(service.mark), sizeof mark};
  const ssize_t n = ::process_vm_readv(service.pid, &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(sizeof mark)) return !is_of_these_files(service, mark);
  // A program may also have unmapped the page of the mark.
  return ::pread(service.mem(), mark, sizeof mark, static_cast<off_t>(service.mark)) > 0;
}

// A place that no program can map shows whether the address space still exists. A dying process
// releases it thread by thread.
int why_not_there(const MemoryService& service, int error) {
  if (error == ESRCH) return 0;
  constexpr off_t kNowhere = (off_t{1} << 62);
  std::byte byte;
  const bool is_gone = ::pread(service.mem(), &byte, 1, kNowhere) == 0;
  return is_gone || has_left(service) ? 0 : EIO;
}

// One step of the request from `done` on; returns what pread and pwrite return.
ssize_t transfer(const MemoryService& service, Message& message, std::uint32_t done) {
  const MemoryRequest& request = message.request;
  std::byte* const to = request.what == MemoryRequest::kView ? service.window : message.data;
  std::byte* const data = to + done;
  const std::uint32_t bytes = request.bytes - done;
  const auto place = static_cast<off_t>(request.address + done);
  switch (request.what) {
    case MemoryRequest::kRead:
    case MemoryRequest::kView:
      return ::pread(service.mem(), data, bytes, place);
    case MemoryRequest::kMaps:
      return ::pread(service.maps(), data, bytes, place);
    case MemoryRequest::kWrite:
    case MemoryRequest::kWriteStack:
    case MemoryRequest::kReadPieces:  // handled elsewhere
    case MemoryRequest::kReadPiecesWithoutFiles:
    case MemoryRequest::kPeekPieces:
    case MemoryRequest::kWritePieces:
      break;
  }
  return ::pwrite(service.mem(), data, bytes, place);
}

// Returns the size if the whole piece was read or written, else -1.
ssize_t transfer_piece(const MemoryService& service, const MemoryPieceRequest& piece,
                       std::byte* data, bool writes) {
  for (std::uint64_t done = 0; done < piece.bytes;) {
    const std::uint64_t left = piece.bytes - done;
    const auto place = static_cast<off_t>(piece.address + done);
    const ssize_t n = writes ? ::pwrite(service.mem(), data + done, left, place)
                             : ::pread(service.mem(), data + done, left, place);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    done += static_cast<std::uint64_t>(n);
  }
  return static_cast<ssize_t>(piece.bytes);
}

// Reads the process that has the pid now together with its mark, because one call reads one address
// space; one that has gone meanwhile does not answer. remote: the place of the mark, then the
// pieces.
void peek(const MemoryService& service, const iovec* remote, std::size_t pieces, Message& message) {
  std::byte mark[kMemoryMarkBytes];
  const iovec local[] = {{mark, service.mark == 0 ? 0 : sizeof mark},
                         {message.data, sizeof message.data}};
  ssize_t there = ::process_vm_readv(service.pid, local, 2, remote, pieces + 1, 0);
  const int error = why_not_there(service, there < 0 ? errno : EIO);
  if (there < 0) message.answer.error = error;
  if (there < 0 || error == 0) return;
  there -= static_cast<ssize_t>(local[0].iov_len);
  if (there < 0 || (service.mark != 0 && !is_of_these_files(service, mark))) return;
  ++remote;
  std::uint32_t& bytes = message.answer.bytes;
  for (std::size_t i = 0; i < pieces; ++i) {
    if (static_cast<ssize_t>(bytes + remote[i].iov_len) > there) return;
    bytes += static_cast<std::uint32_t>(remote[i].iov_len);
  }
}

// A request's list of pieces, as many as a message has room for.
struct PieceList {
  MemoryPieceRequest pieces[kMaxMemoryPieces];
  iovec mark_and_remote[kMaxMemoryPieces + 1];
  iovec* const remote = mark_and_remote + 1;
  std::size_t fits = 0;
  std::uint64_t bytes = 0;  // of those

  // room: the space for their bytes.
  void take(const Message& message, std::size_t count, std::size_t room) {
    std::memcpy(pieces, message.data, count * sizeof *pieces);
    bytes = 0;
    for (fits = 0; fits < count && pieces[fits].bytes <= room - bytes; ++fits) {
      bytes += pieces[fits].bytes;
      remote[fits] = {std::bit_cast<void*>(pieces[fits].address), pieces[fits].bytes};
    }
  }
};

PieceList list;

// Transfers the listed pieces within the first `there` bytes, in order, up to the first incomplete
// one.
void transfer_pieces(const MemoryService& service, ssize_t there, std::byte* data, bool writes,
                     MemoryAnswer& answer) {
  for (std::size_t i = 0; i < list.fits; ++i) {
    if (static_cast<ssize_t>(answer.bytes + list.pieces[i].bytes) > there) return;
    const ssize_t n = transfer_piece(service, list.pieces[i], data + answer.bytes, writes);
    if (n < 0) answer.error = why_not_there(service, EIO);
    if (n < 0) return;
    answer.bytes += static_cast<std::uint32_t>(n);
  }
}

void read_pieces(const MemoryService& service, Message& message) {
  list.take(message,
            std::min<std::size_t>(message.request.bytes / sizeof *list.pieces, kMaxMemoryPieces),
            sizeof message.data);
  if (message.request.what == MemoryRequest::kPeekPieces) {
    list.mark_and_remote[0] = {std::bit_cast<void*>(service.mark),
                               service.mark == 0 ? 0 : kMemoryMarkBytes};
    return peek(service, list.mark_and_remote, list.fits, message);
  }
  const bool may_wait = message.request.what == MemoryRequest::kReadPieces;
  const ssize_t there =
      may_wait ? bring_in(service, list.remote, list.fits) : static_cast<ssize_t>(list.bytes);
  if (there < 0) message.answer.error = why_not_there(service, errno);
  transfer_pieces(service, there, message.data, false, message.answer);
}

// All pages must be present before anything is written.
void write_pieces(const MemoryService& service, Message& message) {
  const std::size_t head = message.request.address * sizeof *list.pieces;
  MemoryAnswer& answer = message.answer;
  if (message.request.address > kMaxMemoryPieces || head > message.request.bytes) {
    answer.error = EINVAL;
    return;
  }
  list.take(message, message.request.address, message.request.bytes - head);
  const ssize_t there = bring_in(service, list.remote, list.fits);
  if (there == static_cast<ssize_t>(list.bytes)) {
    return transfer_pieces(service, there, message.data + head, true, answer);
  }
  answer.error = why_not_there(service, there < 0 ? errno : EFAULT);
}

void transfer_all(const MemoryService& service, Message& message) {
  MemoryAnswer& answer = message.answer;
  const MemoryRequest::What what = message.request.what;
  if (are_pieces(what)) return read_pieces(service, message);
  if (what == MemoryRequest::kWritePieces) return write_pieces(service, message);
  if (what == MemoryRequest::kView && service.window == nullptr) {
    answer.error = EINVAL;
    return;
  }
  if (what == MemoryRequest::kRead || what == MemoryRequest::kWrite) {
    if (const int error = bring_in(service, message); error != 0) {
      answer.error = why_not_there(service, error);
      return;
    }
  }
  while (answer.bytes < message.request.bytes) {
    const ssize_t n = transfer(service, message, answer.bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) answer.error = errno;
    if (n <= 0) return;
    answer.bytes += static_cast<std::uint32_t>(n);
  }
}

// Number of times that this thread has left its processor to wait.
long waits() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

void do_request(const MemoryService& service, Message& message) {
  const std::uint64_t began = monotonic_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const long waits_before = waits();
  message.answer = {.number = message.request.number};
  transfer_all(service, message);
  message.answer.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (waits() == waits_before) return;  // the excess time was spent by others on its processor
  const std::uint64_t passed = monotonic_ns() - began;
  message.answer.blocked_ns = passed - std::min(passed, message.answer.cpu_ns - cpu);
}

// Returns false if it cannot be mapped.
bool map_window(MemoryService& service) {
  if (service.window_file() < 0) return true;
  void* const window = ::mmap(nullptr, kMemoryWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              service.window_file(), 0);
  if (window == MAP_FAILED) return false;
  service.window = static_cast<std::byte*>(window);
  return true;
}

}  // namespace

void no_server_error(const MemoryService& service, int error) {
  const MemoryAnswer answer{.error = error};
  (void)::send(service.socket(), &answer, sizeof answer, MSG_NOSIGNAL);
}

void serve(MemoryService& service) {
  static Message message;
  if (!map_window(service)) {
    no_server_error(service, errno);
    ::_exit(0);
  }
  for (;;) {
    iovec in[] = {{&message.request, sizeof message.request}, {message.data, sizeof message.data}};
    const ssize_t got = ::readv(service.socket(), in, 2);
    if (got < 0 && errno == EINTR) continue;
    if (got < static_cast<ssize_t>(sizeof message.request)) ::_exit(0);
    const MemoryRequest::What what = message.request.what;
    message.request.bytes =
        std::min(message.request.bytes,
                 what == MemoryRequest::kView ? kMemoryWindowBytes : kMaxMemoryTransfer);
    do_request(service, message);
    const bool reads =
        what == MemoryRequest::kRead || what == MemoryRequest::kMaps || are_pieces(what);
    iovec out[] = {{&message.answer, sizeof message.answer},
                   {message.data, reads ? message.answer.bytes : 0}};
    const msghdr header{.msg_iov = out, .msg_iovlen = 2};
    if (::sendmsg(service.socket(), &header, MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

}  // namespace memprofd
