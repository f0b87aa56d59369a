// SPDX-License-Identifier: Apache-2.0
// Asks a program for a minor collection at its next allocation, as the runtime asks itself
// (caml_request_minor_gc), by writes to its memory alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"

namespace memprofd {

// The offset of requested_minor_gc in the domain state, from the code of caml_request_minor_gc.
std::optional<std::uint32_t> decode_request_minor_gc(std::span<const std::byte> code);

class MinorCollections {
 public:
  // The target must outlive it.
  explicit MinorCollections(const Target& target);

  // A race with the runtime's own writes is harmless: call this again now and then. Does nothing if
  // the runtime is not understood; the program collects when its minor heap is full.
  void request() const;

 private:
  std::vector<std::uint64_t> states() const;

  const Target* target_;  // not owned
  std::optional<std::uint32_t> requested_;
  std::optional<RuntimeLocks> domains_;  // of OCaml 5
};

}  // namespace memprofd
