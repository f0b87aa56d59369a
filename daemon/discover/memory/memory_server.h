// SPDX-License-Identifier: Apache-2.0
// Small processes that touch the memory of targets in memprofd's place.
//
// To read a target's memory may mean to read a file that it maps; when that file's server
// does not answer (FUSE, NFS), the reader stands still in the kernel, and not even SIGKILL
// ends it. So a process of its own does it, one for each target, that holds nothing but a
// socket and the target's files in /proc: whatever becomes of it, memprofd goes on, can
// end, and leaves no probe and no memory behind.
//
// Who waits for a page behind /proc/PID/mem holds the lock of the address space, and with it
// each uprobe on a file that is mapped there, whosever it is. So the pages are brought in by
// process_vm_readv before, which waits without that lock; what it reads is thrown away, as
// it goes by pid, unless its mark shows whose it is. It also has the kernel part the pages that a
// process shares with its copies.
//
//     memprofd ══ socket ══ nursery           forked once, while memprofd is small
//        ║                     └─ forks ─┐
//        ╚═══════════ socket ═════════ server   one a target; ends when the socket does
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// A process, and files of it in /proc. These belong to the address space that it had when they were
// opened, and answer nothing after its end.
struct MemoryFiles {
  int pid = 0;
  // Address of 16 bytes that identify this address space (AT_RANDOM). 0: unknown.
  std::uint64_t mark = 0;
  UniqueFd mem;  // read and write
  UniqueFd maps;
  // Memory of kMemoryWindowBytes that memprofd maps as well, or none.
  UniqueFd window = UniqueFd();
};

// The protocol of a server's socket, one message each: a request, followed by the bytes to write,
// or by a list of pieces and the bytes for them; an answer, followed by the bytes that were read.
struct MemoryRequest {
  // kWriteStack also writes below a stack, which grows it. kReadPieces has a list of pieces behind
  // it, of `bytes` bytes, and is answered by what could be read of them, up to the first that
  // could not. kReadPiecesWithoutFiles and kView are for what is in no mapping of a file: no page
  // is brought in before. kPeekPieces tells what process_vm_readv has read, at a quarter of the
  // cost; where no mark is known it may be of another address space, as that goes by pid, if the
  // process has run exec at that moment. kView reads into the window, from its beginning on; its
  // answer has no bytes. kWritePieces has a list of `address` pieces behind it, then their bytes;
  // `bytes` counts both. They are written one after the other, up to the first that cannot be.
  enum What : std::uint32_t {
    kRead,
    kWrite,
    kWriteStack,
    kMaps,
    kReadPieces,
    kView,
    kReadPiecesWithoutFiles,
    kPeekPieces,
    kWritePieces,
  };
  std::uint64_t number = 0;
  std::uint64_t address = 0;  // or place in the file, or number of pieces
  std::uint32_t bytes = 0;    // at most kMaxMemoryTransfer; of kView, kMemoryWindowBytes
  What what = kRead;
};

// One of a list: they are read, or written, in that order.
struct MemoryPieceRequest {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

struct MemoryAnswer {
  std::uint64_t number = 0;  // of the request; 0: there is no server, `error` says why
  std::uint64_t blocked_ns = 0;
  std::uint32_t bytes = 0;   // moved, less than asked for at the end or before an error
  std::int32_t error = 0;    // errno
  std::uint64_t cpu_ns = 0;  // of the server until now
};

constexpr std::uint32_t kMaxMemoryTransfer = 64u << 10;  // also of all pieces together
constexpr std::size_t kMaxMemoryPieces = 256;
constexpr std::size_t kMemoryMarkBytes = 16;
// Larger windows are slower: what is read would fall out of the processor's cache before it is
// looked at.
constexpr std::uint32_t kMemoryWindowBytes = 512u << 10;

// Forks the nursery, unless there is one. To be called while this process is small and has
// no threads; start_memory_server() makes up for it.
void start_memory_nursery();

// Has a server made for these files; the socket to it, which may be used at once. kUnavailable
// when that is impossible; a server that could not be made shows in an end of the socket.
absl::StatusOr<UniqueFd> start_memory_server(const MemoryFiles& files);

}  // namespace memprofd
