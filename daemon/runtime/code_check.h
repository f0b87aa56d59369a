// SPDX-License-Identifier: Apache-2.0
// Checks that a program's machine code uses the runtime's structures as the table of releases
// describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

// Offsets that caml_c_call uses, read from its machine code.
struct CodeOffsets {
  std::optional<std::uint32_t> bottom_of_stack;
  std::optional<std::uint32_t> last_return_address;
  std::optional<std::uint32_t> young_ptr;
  std::optional<std::uint32_t> current_stack;  // OCaml 5
  std::optional<std::uint32_t> c_stack;        // OCaml 5
};
CodeOffsets decode_caml_c_call(std::span<const std::byte> code);
// Offset of requested_external_interrupt, read from caml_process_external_interrupt.
std::optional<std::uint32_t> decode_process_interrupt(std::span<const std::byte> code);

// The displacement of the first 64-bit load of a far field: mov disp32(base), register.
enum class FarLoad { kAny, kFromRdi, kToRdi };
std::optional<std::uint32_t> decode_far_load(std::span<const std::byte> code, FarLoad which);

// The first bytes of the OCaml 5 functions with which the agent's offsets are checked. The position
// of a domain's profile in its Memprof is not among them, because the agent tests it itself.
struct AgentCode {
  std::span<const std::byte> process_interrupt;  // caml_process_external_interrupt
  std::span<const std::byte> delete_domain;      // caml_memprof_delete_domain
  std::span<const std::byte> minor_words;        // caml_gc_minor_words_unboxed
  std::span<const std::byte> alloc_shr;          // caml_alloc_shr
};

// Compares the layout with the code of caml_c_call. kFailedPrecondition, in one line, if they
// differ or the code is not understood.
absl::Status verify_runtime_abi(const RuntimeAbi& abi, std::span<const std::byte> caml_c_call);
// The same check for the data that the agent needs in OCaml 5.
absl::Status verify_agent_abi(const RuntimeAbi& abi, const AgentCode& code);

}  // namespace memprofd
