// SPDX-License-Identifier: Apache-2.0
// Breaks down a process's resident memory: every resident page is counted once, by its use, so that
// the parts add up to the kernel's count. Reads from outside, without stopping the process or
// asking it for anything.
//
// The pages are counted last, in one pass. For a running process, the sum is as old as the kernel's
// own number, and the data about malloc and the heap is slightly older.
#pragma once

#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_status.h"
#include "daemon/model/requested_process.h"
#include "daemon/rss/native_owner.h"
#include "daemon/rss/rss_class.h"

namespace memprofd {

struct RssPart {
  RssClass kind = RssClass::kOther;
  std::string name;  // file name, if has_names()
  std::uint64_t resident = 0;
  std::uint64_t size = 0;  // address range in bytes
  std::uint64_t swapped = 0;
  std::uint64_t number = 0;  // number of channels, stacks, lost pools; 0: not counted
};

// Resident bytes of a malloc arena.
struct RssArena {
  bool is_main = false;
  std::uint64_t system = 0;  // memory taken by malloc, by its own count
  std::uint64_t used = 0;
  std::uint64_t free = 0;
  std::uint64_t cached = 0;
  std::uint64_t unwalked = 0;
};

// An action that would return memory. Advice for less than a twentieth of the resident memory is
// omitted.
struct RssAdvice {
  std::string action;       // "call Gc.compact ()"
  std::string reason;       // one line: reason and cost
  std::uint64_t bytes = 0;  // at most
};

struct RssOptions {
  bool owners = false;  // native memory held by custom blocks
  // Maximum number of pieces of memory that are read, beside the limit of time.
  std::uint64_t max_pieces = std::numeric_limits<std::uint64_t>::max();
};

struct RssReport {
  int pid = 0;
  std::string program;         // path
  std::string ocaml_version;   // empty: not an OCaml program
  MemoryStatus status;         // the kernel's counters, right after the pages were counted
  std::uint64_t counted = 0;   // resident bytes of all parts
  std::vector<RssPart> parts;  // by class, then largest first
  std::vector<RssArena> arenas;
  std::string allocator;            // "glibc", "jemalloc"; empty: unknown
  std::uint64_t mapped_chunks = 0;  // malloc chunks with mappings of their own
  std::uint64_t walked_chunks = 0;  // all malloc chunks
  std::uint64_t ocaml_domains = 0;
  std::uint64_t space_overhead = 0;   // of the runtime; 0: unknown
  bool heap_known = false;            // the whole OCaml heap was found
  std::uint64_t ocaml_free_kept = 0;  // OCaml 5: free space that a compaction keeps, estimated
  // OCaml 4: sizes of the heap's chunks in the runtime's order, in bytes, and their used parts.
  std::vector<std::uint64_t> ocaml_chunks;
  std::uint64_t ocaml_chunks_used = 0;
  std::uint64_t mappings = 0;
  std::uint64_t max_mappings = 0;   // limit per process; 0: unknown
  std::uint64_t trimmable = 0;      // pages that malloc_trim() would return
  std::vector<RssAdvice> advice;    // largest first
  std::vector<std::string> hints;   // explanations of parts and places to look, one line each
  std::vector<std::string> notes;   // unknown parts with the reason, one line each
  bool has_owners = false;          // owners were requested and the OCaml heap could be walked
  std::vector<NativeOwner> owners;  // largest first
  NativeOwner no_owner;             // malloc memory that no custom block holds

  // The resident bytes of all parts of a class.
  std::uint64_t resident(RssClass kind) const;
  std::uint64_t number_of(RssClass kind) const;  // the largest among the parts
};

// kNotFound: there is no such process; kPermissionDenied; kResourceExhausted: it has too many
// mappings; or an error of check_is_meant() for the inspected process.
absl::StatusOr<RssReport> account_rss(const RequestedProcess& process, RssOptions options = {},
                                      const std::stop_token& stop = {});

}  // namespace memprofd
