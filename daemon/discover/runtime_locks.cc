// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/runtime_locks.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/x86_instruction.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Number of bytes that are decoded of each function.
constexpr std::size_t kEnterHookBytes = 256;
constexpr std::size_t kSectionBytes = 512;
constexpr std::size_t kAcquireBytes = 64;
// Maximum stack size between OCaml's call of C and the system call.
constexpr std::uint64_t kMaxStackBytes = 64u << 10;

constexpr long kSleeps[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_restart_syscall};
constexpr long kSelects[] = {SYS_select, SYS_pselect6};
constexpr long kAccepts[] = {SYS_accept, SYS_accept4};
constexpr long kReads[] = {SYS_read};
constexpr long kReceives[] = {SYS_recvfrom};
constexpr long kWaits[] = {SYS_wait4};
constexpr long kSuspends[] = {SYS_rt_sigsuspend};

struct StubName {
  std::string_view name;
  std::span<const long> calls;
};
// Stubs of otherlibs/unix and runtime/io.c in 4.11 to 4.14, and of Memprof_check.
constexpr StubName kStubs[] = {
    {"memprof_check_ml_wait", kSleeps},  {"unix_sleep", kSleeps},   {"unix_select", kSelects},
    {"unix_accept", kAccepts},           {"unix_read", kReads},     {"unix_recv", kReceives},
    {"unix_recvfrom", kReceives},        {"unix_wait", kWaits},     {"unix_waitpid", kWaits},
    {"unix_sigsuspend", kSuspends},      {"caml_ml_input", kReads}, {"caml_ml_input_char", kReads},
    {"caml_ml_input_scan_line", kReads},
};

absl::Status not_free(const std::string& why) { return absl::UnavailableError(why); }
absl::Status unreadable() { return not_free("its memory cannot be read"); }

absl::Status not_found(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("its runtime does not reveal ", what));
}

// Calls fn for each instruction until one is unknown or fn returns false.
void for_each_instruction(std::span<const std::byte> code,
                          const std::function<bool(const X86Instruction&, std::size_t end)>& fn) {
  for (std::size_t at = 0; at < code.size();) {
    const auto one = decode_x86(code.subspan(at));
    if (!one || !fn(*one, at + one->length)) return;
    at += one->length;
  }
}

std::uint64_t place_of(const X86Instruction& code, std::uint64_t end) {
  return end + static_cast<std::uint64_t>(std::int64_t{code.displacement});
}

bool is_nop(const X86Instruction& code) {
  const bool is_endbr = code.map == X86Instruction::Map::k0f && code.opcode == 0x1e;
  return is_endbr || code.is(0x90);
}

std::vector<std::byte> code_at(const ElfFile& program, const ElfSymbol& symbol, std::size_t most) {
  std::vector<std::byte> code(symbol.size == 0 ? most : std::min<std::size_t>(symbol.size, most));
  if (!program.read(symbol.address, code).ok()) code.clear();
  return code;
}

}  // namespace

std::optional<EnterHook> read_enter_hook(std::span<const std::byte> code, std::uint64_t address) {
  EnterHook hook;
  bool is_first = true, is_known = false, is_alone = true;
  for_each_instruction(code, [&](const X86Instruction& one, std::size_t end) {
    if (is_nop(one)) return true;
    const bool is_return = one.is(0xc3);
    const bool leaves = is_return || one.is(0xe9) || one.is(0xeb);
    if (is_return && is_first) hook.does_nothing = true;
    is_first = false;
    // Finds movl $0, busy(%rip), which occurs once.
    if (one.is(0xc7) && one.rip_relative && !one.wide && !one.has_66 && one.immediate == 0) {
      is_alone = hook.busy == 0;
      hook.busy = place_of(one, address + end);
    }
    is_known = leaves;
    return !leaves;
  });
  if (!is_known || !is_alone || (!hook.does_nothing && hook.busy == 0)) return std::nullopt;
  return hook;
}

// The first word that the code loads is the leader. The number of domains is an int that it loads,
// provided that it also loads the word 8 bytes later: by its address, or (OCaml 5.5) relative to a
// register that has the address of the int.
std::optional<SectionWords> read_section_words(std::span<const std::byte> code,
                                               std::uint64_t address) {
  SectionWords words;
  std::vector<std::uint64_t> ints, longs;
  std::array<std::uint64_t, 16> addresses{};  // by register; 0: no known address
  for_each_instruction(code, [&](const X86Instruction& one, std::size_t end) {
    const bool loads = one.is(0x8b), is_lea = one.is(0x8d);
    std::uint64_t place = 0;
    if (one.rip_relative) {
      place = place_of(one, address + end);
    } else if (loads && one.mode != 3 && !one.has_index && addresses[one.rm] != 0) {
      place = addresses[one.rm] + static_cast<std::uint64_t>(std::int64_t{one.displacement});
    }
    if (loads || is_lea) addresses[one.reg] = is_lea && one.wide ? place : 0;
    if (place == 0) return true;
    if (one.rip_relative && (one.is(0x63) || (loads && !one.wide))) ints.push_back(place);
    if (loads && one.wide) longs.push_back(place);
    return true;
  });
  if (longs.empty()) return std::nullopt;
  words.leader = longs.front();
  for (const std::uint64_t place : ints) {
    if (std::ranges::find(longs, place + 8) == longs.end()) continue;
    if (words.domains != 0 && words.domains != place) return std::nullopt;
    words.domains = place;
  }
  return words.domains != 0 ? std::optional(words) : std::nullopt;
}

// Matches lea lock(%rbx), %rdi; call pthread_mutex_lock; ..; mov state(%rbx), register.
std::optional<DomainOffsets> read_domain_offsets(std::span<const std::byte> code) {
  DomainOffsets places;
  std::optional<std::uint8_t> base;
  bool is_known = false, is_called = false;
  for_each_instruction(code, [&](const X86Instruction& one, std::size_t) {
    if (!base && one.is(0x8d) && one.reg == kRdi && !one.rip_relative && !one.has_index) {
      base = one.rm;
      places.lock = static_cast<std::uint32_t>(one.displacement);
    }
    if (base && one.is(0xe8)) is_called = true;
    const bool loads = one.is(0x8b) && one.wide && one.mode != 3 && !one.has_index;
    if (is_called && loads && one.rm == *base) {
      places.state = static_cast<std::uint32_t>(one.displacement);
      is_known = true;
    }
    return !is_known && !one.is(0xc3);
  });
  if (!is_known || places.lock == 0) return std::nullopt;
  return places;
}

absl::StatusOr<RuntimeLocks> RuntimeLocks::find(const Target& target) {
  // Opens the file again, because the target's object may be used by one thread only.
  ASSIGN_OR_RETURN(const auto program, ElfFile::from_fd(target.program_file, target.exe));
  RuntimeLocks locks;
  locks.has_domains_ = target.abi.domains;
  RETURN_IF_ERROR(target.abi.domains ? locks.find_in_ocaml5(target, *program)
                                     : locks.find_in_ocaml4(target, *program));
  return locks;
}

absl::Status RuntimeLocks::find_in_ocaml4(const Target& target, const ElfFile& program) {
  std::vector<std::string_view> names{"caml_enter_blocking_section_hook", "caml_c_call"};
  for (const StubName& stub : kStubs) names.push_back(stub.name);
  const auto symbols = program.find_symbols(names);
  if (!symbols[0] || !symbols[1]) return not_found("which thread holds its lock");
  state_ = target.caml_state_address;
  bottom_of_stack_ = target.abi.bottom_of_stack;
  last_return_address_ = target.abi.last_return_address;
  enter_hook_ = symbols[0]->address + target.load_bias;
  c_call_ = symbols[1]->address + target.load_bias;
  for (std::size_t i = 0; i < std::size(kStubs); ++i) {
    if (!symbols[i + 2] || symbols[i + 2]->size == 0) continue;
    const std::uint64_t begin = symbols[i + 2]->address + target.load_bias;
    stubs_.push_back({begin, begin + symbols[i + 2]->size, kStubs[i].calls});
  }
  return absl::OkStatus();
}

absl::Status RuntimeLocks::find_in_ocaml5(const Target& target, const ElfFile& program) {
  static constexpr std::string_view kNames[] = {"caml_try_run_on_all_domains_with_spin_work",
                                                "caml_acquire_domain_lock",
                                                "caml_num_domains_running"};
  const auto symbols = program.find_symbols(kNames);
  if (!symbols[0] || !symbols[1] || !symbols[2]) return not_found("which domains run");
  const auto section = read_section_words(code_at(program, *symbols[0], kSectionBytes),
                                          symbols[0]->address + target.load_bias);
  const auto places = read_domain_offsets(code_at(program, *symbols[1], kAcquireBytes));
  if (!section || !places) return not_found("which domains run, because it is another build");
  section_ = *section;
  domain_offsets_ = *places;
  running_ = symbols[2]->address + target.load_bias;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint64_t>> RuntimeLocks::free_states(
    const MemoryReader& memory, const SleepingCall& call) const {
  if (has_domains_) return states_of_domains(memory);
  RETURN_IF_ERROR(check_ocaml4(memory, call));
  return std::vector<std::uint64_t>{state_};
}

absl::Status RuntimeLocks::check_ocaml4(const MemoryReader& memory,
                                        const SleepingCall& call) const {
  std::uint64_t address = 0;
  std::array<std::byte, kEnterHookBytes> code{};
  if (!memory.read_value(enter_hook_, address).ok() || !memory.read(address, code).ok()) {
    return unreadable();
  }
  const auto hook = read_enter_hook(code, address);
  if (!hook) return not_free("another library has its hook of blocking sections");
  if (hook->does_nothing) return check_stub(memory, call);
  std::int32_t busy = 0;
  if (!memory.read_value(hook->busy, busy).ok()) return unreadable();
  return busy == 0 ? absl::OkStatus() : not_free("a thread of it has the runtime lock");
}

// Identifies the function that OCaml code called last and that has not returned: its return address
// is on the stack. A call of C without caml_c_call leaves the record of an earlier call, but then
// the stack does not contain that return address.
absl::Status RuntimeLocks::check_stub(const MemoryReader& memory, const SleepingCall& call) const {
  const absl::Status unknown = not_free(
      "its C code may hold the runtime (only Unix and channels are known to release it, unless the "
      "program links the threads library)");
  std::uint64_t bottom = 0;
  if (!memory.read_value(state_ + bottom_of_stack_, bottom).ok()) return unreadable();
  if (bottom <= call.stack_pointer || bottom - call.stack_pointer > kMaxStackBytes) return unknown;
  const auto function = called_function(memory, bottom);
  const auto stub = std::ranges::find(stubs_, function.value_or(0), &Stub::begin);
  if (stub == stubs_.end() || std::ranges::find(stub->calls, call.number) == stub->calls.end()) {
    return unknown;
  }
  std::vector<std::uint64_t> stack((bottom - call.stack_pointer) / 8);
  if (!memory.read(call.stack_pointer, std::as_writable_bytes(std::span(stack))).ok()) {
    return unreadable();
  }
  const bool leads_back = std::ranges::any_of(
      stack, [&](std::uint64_t word) { return stub->begin < word && word < stub->end; });
  return leads_back ? absl::OkStatus() : unknown;
}

// The instructions before the return address are: lea or mov function(%rip), %rax; call
// caml_c_call.
std::optional<std::uint64_t> RuntimeLocks::called_function(const MemoryReader& memory,
                                                           std::uint64_t bottom) const {
  constexpr std::size_t kLea = 7, kCall = 5;
  std::uint64_t back = 0, on_stack = 0;
  std::array<std::byte, kLea + kCall> code{};
  if (!memory.read_value(state_ + last_return_address_, back).ok() ||
      !memory.read_value(bottom - 8, on_stack).ok() || on_stack != back ||
      !memory.read(back - code.size(), code).ok()) {
    return std::nullopt;
  }
  const auto load = decode_x86(std::span(code).first(kLea));
  const auto called = decode_x86(std::span(code).last(kCall));
  if (!load || load->length != kLea || !load->rip_relative || load->reg != kRax || !load->wide ||
      !called || !called->is(0xe8) ||
      back + static_cast<std::uint64_t>(called->immediate) != c_call_) {
    return std::nullopt;
  }
  const std::uint64_t place = place_of(*load, back - kCall);
  if (load->is(0x8d)) return place;
  std::uint64_t function = 0;
  if (!load->is(0x8b) || !memory.read_value(place, function).ok()) return std::nullopt;
  return function;
}

std::vector<std::uint64_t> RuntimeLocks::domain_states(const MemoryReader& memory) const {
  std::int32_t count = 0;
  std::uint64_t list = 0;
  if (!memory.read_value(section_.domains, count).ok() ||
      !memory.read_value(section_.domains + 8, list).ok() || count <= 0 ||
      count > static_cast<std::int32_t>(MEMPROF_DOMAINS)) {
    return {};
  }
  std::vector<std::uint64_t> domains(static_cast<std::size_t>(count)), states;
  if (!memory.read(list, std::as_writable_bytes(std::span(domains))).ok()) return {};
  for (const std::uint64_t domain : domains) {
    std::uint64_t state = 0;
    if (memory.read_value(domain + domain_offsets_.state, state).ok() && state != 0) {
      states.push_back(state);
    }
  }
  return states;
}

absl::StatusOr<std::vector<std::uint64_t>> RuntimeLocks::states_of_domains(
    const MemoryReader& memory) const {
  std::uint64_t leader = 0, running = 0, list = 0;
  std::int32_t count = 0;
  if (!memory.read_value(section_.leader, leader).ok() ||
      !memory.read_value(running_, running).ok() ||
      !memory.read_value(section_.domains, count).ok() ||
      !memory.read_value(section_.domains + 8, list).ok()) {
    return unreadable();
  }
  if (leader != 0) return not_free("its domains collect");
  if (count <= 0 || static_cast<std::uint64_t>(count) != running || running > MEMPROF_DOMAINS) {
    return not_free("one of its domains starts or ends");
  }
  std::vector<std::uint64_t> domains(running), states(running);
  if (!memory.read(list, std::as_writable_bytes(std::span(domains))).ok()) return unreadable();
  for (std::size_t i = 0; i < domains.size(); ++i) {
    std::int32_t lock = 0;
    if (!memory.read_value(domains[i] + domain_offsets_.lock, lock).ok() ||
        !memory.read_value(domains[i] + domain_offsets_.state, states[i]).ok()) {
      return unreadable();
    }
    if (lock != 0) return not_free("one of its domains is running");
  }
  return states;
}

}  // namespace memprofd
