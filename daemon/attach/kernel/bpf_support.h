// SPDX-License-Identifier: Apache-2.0
// Helpers for every user of libbpf here: owners, silence, errors with a remedy.
#pragma once

#include <bpf/libbpf.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace memprofd {

// Owns an object of libbpf, or a skeleton that bpftool generated: BpfOwner<calls_bpf,
// calls_bpf__destroy>.
template <auto kDestroy>
struct BpfDestroyer {
  void operator()(auto* object) const { kDestroy(object); }
};
template <typename Object, auto kDestroy>
using BpfOwner = std::unique_ptr<Object, BpfDestroyer<kDestroy>>;
using BpfLink = BpfOwner<bpf_link, bpf_link__destroy>;
using RingBuffer = BpfOwner<ring_buffer, ring_buffer__free>;

// Sends libbpf's own messages to the debug log, and the reason why the kernel's verifier refused a
// program always to the log. Applies to the process; one call is enough.
void route_libbpf_messages();

// Returns the last lines of the verifier's log, which contain the reason, from libbpf's message
// with the whole log; empty for other messages.
std::vector<std::string> verifier_reason(std::string_view message);

// Checks that memprofd may open the files that the BPF programs of one target need.
absl::Status check_room_for_programs(int pid);

// A failed load as a Status: finds out what the kernel lacks and names it.
absl::Status bpf_load_error(int error);

// A failed attach of `what` ("the capture probe") to `where` ("/proc/42/exe+0x1f0").
absl::Status bpf_attach_error(std::string_view what, std::string_view where, int error);

}  // namespace memprofd
