// SPDX-License-Identifier: Apache-2.0
// Breaks down a process's resident memory: every resident page is counted once, by its use, so that
// the parts add up to the kernel's count. Read from outside; the process is not stopped and not
// asked for anything.
//
// The pages are counted last, in one pass. While the process runs, the sum is as old as the
// kernel's own number, and the knowledge of malloc and the heap is a moment older.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/model/asked_process.h"
#include "daemon/rss/memory_status.h"
#include "daemon/rss/native_owner.h"
#include "daemon/rss/rss_class.h"

namespace memprofd {

struct RssPart {
  RssClass kind = RssClass::kOther;
  std::string name;  // of the file, where has_names()
  std::uint64_t resident = 0;
  std::uint64_t size = 0;  // of addresses
  std::uint64_t swapped = 0;
  std::uint64_t number = 0;  // of channels, stacks, lost pools; 0: not counted
};

// Resident bytes of an arena of malloc.
struct RssArena {
  bool is_main = false;
  std::uint64_t system = 0;  // memory taken by malloc, by its own count
  std::uint64_t used = 0;
  std::uint64_t free = 0;
  std::uint64_t cached = 0;
  std::uint64_t unwalked = 0;
};

// Actions that would return memory. Advice for less than a twentieth of the resident memory is
// omitted.
struct RssAdvice {
  std::string action;       // "call Gc.compact ()"
  std::string reason;       // one line: reason and cost
  std::uint64_t bytes = 0;  // at most
};

struct RssOptions {
  bool owners = false;  // what custom blocks hold
};

struct RssReport {
  int pid = 0;
  std::string program;         // path
  std::string ocaml_version;   // empty: none
  MemoryStatus status;         // by the kernel, right after the pages were counted
  std::uint64_t counted = 0;   // resident bytes of all parts
  std::vector<RssPart> parts;  // by class, then the largest first
  std::vector<RssArena> arenas;
  std::string allocator;            // "glibc", "jemalloc"; empty: not known
  std::uint64_t mapped_chunks = 0;  // of malloc, with mappings of their own
  std::uint64_t walked_chunks = 0;  // all
  std::uint64_t ocaml_domains = 0;
  std::uint64_t space_overhead = 0;  // of the runtime; 0: not known
  // OCaml 4: the chunks of its heap in the runtime's order, in bytes, and their used parts.
  std::vector<std::uint64_t> ocaml_chunks;
  std::uint64_t ocaml_chunks_used = 0;
  std::uint64_t mappings = 0;
  std::uint64_t max_mappings = 0;   // that a process may have; 0: not known
  std::uint64_t trimmable = 0;      // pages that malloc_trim() would give back
  std::vector<RssAdvice> advice;    // the largest first
  std::vector<std::string> hints;   // what explains a part and where to look, a line each
  std::vector<std::string> notes;   // unknown parts with the reason, a line each
  bool has_owners = false;          // owners were requested, and the OCaml heap could be walked
  std::vector<NativeOwner> owners;  // the largest first
  NativeOwner no_owner;             // what malloc has given and no custom block holds

  // The resident bytes of all parts of a class.
  std::uint64_t resident(RssClass kind) const;
  std::uint64_t number_of(RssClass kind) const;  // the largest of them
};

// kNotFound: there is no such process; kPermissionDenied; kResourceExhausted: it has too many
// mappings; errors of check_is_meant() about the inspected process.
absl::StatusOr<RssReport> account_rss(const AskedProcess& process, RssOptions options = {},
                                      const std::stop_token& stop = {});

}  // namespace memprofd
