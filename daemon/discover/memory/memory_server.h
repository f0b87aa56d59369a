// SPDX-License-Identifier: Apache-2.0
// Small processes that access the memory of targets on behalf of memprofd.
//
// Reading a target's memory may require a file that it maps. If that file's server does not answer
// (FUSE, NFS), the reader hangs in the kernel, and not even SIGKILL ends it. So each target has a
// process of its own that holds only a socket and the target's files in /proc. Whatever happens to
// it, memprofd continues, can end, and leaves no probe and no memory behind.
//
// A thread that waits for a page through /proc/PID/mem holds the lock of the address space, and
// thereby blocks all uprobes on files that are mapped there. So pages are first brought in by
// process_vm_readv, which waits without that lock. Its data is discarded, because it is read by
// pid, unless the mark identifies the address space. It also makes the kernel separate pages that a
// process shares with its copies.
//
//     memprofd ══ socket ══ fork server       forked once, while memprofd is small
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
  // kWriteStack also writes below a stack, which grows it. kReadPieces is followed by a list of
  // pieces, of `bytes` bytes; the answer has the pieces that could be read, up to the first
  // failure. kReadPiecesWithoutFiles and kView are for mappings without a file: no page is brought
  // in first. kPeekPieces returns the data of process_vm_readv, at a quarter of the cost; without a
  // known mark it may belong to another address space, because it is read by pid, if the process
  // ran exec at that moment. kView reads into the window, from its beginning; its answer has no
  // bytes. kWritePieces is followed by a list of `address` pieces and their bytes; `bytes` counts
  // both. They are written in order, up to the first failure.
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

// An entry of a list of pieces, which are read or written in order.
struct MemoryPieceRequest {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

struct MemoryAnswer {
  std::uint64_t number = 0;  // request number; 0: there is no server, `error` contains the reason
  std::uint64_t blocked_ns = 0;
  std::uint32_t bytes = 0;   // moved bytes, fewer than requested at the end or before an error
  std::int32_t error = 0;    // errno
  std::uint64_t cpu_ns = 0;  // total CPU time of the server
};

constexpr std::uint32_t kMaxMemoryTransfer = 64u << 10;  // also of all pieces together
constexpr std::size_t kMaxMemoryPieces = 256;
constexpr std::size_t kMemoryMarkBytes = 16;
// Larger windows are slower: the data would fall out of the processor's cache before it is used.
constexpr std::uint32_t kMemoryWindowBytes = 512u << 10;

// Forks the fork server, unless there is one. Call it while this process is small and has no
// threads. Otherwise start_memory_server() does it.
void start_memory_fork_server();

// Starts a server for these files and returns the socket to it, which may be used immediately.
// kUnavailable if that is impossible. If the server could not be created, the socket is closed at
// its other end.
absl::StatusOr<UniqueFd> start_memory_server(const MemoryFiles& files);

}  // namespace memprofd
