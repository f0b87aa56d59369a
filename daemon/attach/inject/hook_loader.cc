// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/hook_loader.h"

#include <dlfcn.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/library_names.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/base_name.h"
#include "daemon/util/status_macros.h"

// void memprof_hook_code(void). Of a stack that is too short it reads a page that is not there: a
// signal mask which the kernel looks at and then refuses for the other argument.
asm(R"(
    .pushsection .rodata
    .balign 16
    .globl memprof_hook_code, memprof_hook_code_words
    .hidden memprof_hook_code, memprof_hook_code_words
memprof_hook_code:
    endbr64
    push    %rbx
    push    %r12
    sub     $8, %rsp
    mov     %rsp, %rbx
    mov     $16, %r12d              # pages of stack
1:  sub     $4096, %rbx
    mov     $14, %eax               # rt_sigprocmask
    mov     $-1, %edi
    mov     %rbx, %rsi
    xor     %edx, %edx
    mov     $8, %r10d
    syscall
    cmp     $-14, %rax              # EFAULT
    je      2f
    dec     %r12d
    jnz     1b
    mov     memprof_hook_code_words(%rip), %rcx
    lea     memprof_hook_code(%rip), %rax
    mov     memprof_hook_code_words+8(%rip), %rdx
    lock cmpxchg %rdx, (%rcx)       # one of several domains
    jne     2f
    lea     memprof_hook_code_words+24(%rip), %rdi
    mov     $2, %esi                # RTLD_NOW
    call    *memprof_hook_code_words+16(%rip)
2:  mov     memprof_hook_code_words+8(%rip), %rax
    test    %rax, %rax
    jz      3f
    call    *%rax
3:  add     $8, %rsp
    pop     %r12
    pop     %rbx
    ret
    .balign 8
memprof_hook_code_words:            # hook, before, dlopen; then the path
    .popsection
)");
extern "C" const std::byte memprof_hook_code[];
extern "C" const std::byte memprof_hook_code_words[];

namespace memprofd {
namespace {

static_assert(RTLD_NOW == 2 && EFAULT == 14 && SYS_rt_sigprocmask == 14);

constexpr std::uint64_t kMagic = 0x6b6f6f68504d454dULL;  // "MEMPhook" read as bytes
constexpr std::uint64_t kPage = 4096, kAlignment = 16;

constexpr std::uint64_t rounded(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void append_word(std::vector<std::byte>& bytes, std::uint64_t word) {
  const auto* first = reinterpret_cast<const std::byte*>(&word);
  bytes.insert(bytes.end(), first, first + sizeof word);
}

// Unused memory between the last instruction of a file and the end of its page.
struct Rest {
  std::uint64_t begin = 0, end = 0;  // in the process
};

// Finds it in files with executable mappings. The C library comes first; it has most room.
std::vector<Rest> find_rests(const Target& target, const std::vector<Mapping>& maps) {
  std::vector<Rest> rests;
  for (const Mapping& mapping : maps) {
    if (!mapping.executable || mapping.writable || mapping.inode == 0) continue;
    const auto file = open_mapping(ProcFs(), target.pid, mapping, target.budget);
    if (!file.ok()) continue;
    const auto bias = file->elf->load_bias(mapping.begin, mapping.end, mapping.offset);
    if (!bias) continue;
    for (const ElfSegment& segment : file->elf->segments()) {
      const std::uint64_t end = *bias + segment.address + segment.memory_size;
      const Rest rest{rounded(end, kAlignment), rounded(end, kPage)};
      if (!segment.executable || segment.file_size != segment.memory_size || end <= mapping.begin ||
          rest.end > mapping.end) {
        continue;
      }
      rests.insert(is_libc(base_name(mapping.path)) ? rests.begin() : rests.end(), rest);
    }
  }
  return rests;
}

// A place for the code. It is there already after a run that was killed, or whose agent could not
// be loaded.
struct Place {
  std::uint64_t address = 0;
  bool is_there = false;
};

// calls: where the hook leads; that code still waits for its first thread.
absl::StatusOr<Place> find_place(const Target& target, std::span<const std::byte> code,
                                 std::uint64_t calls) {
  ASSIGN_OR_RETURN(const std::vector<Mapping> maps, target.memory->maps());
  for (const Rest& rest : find_rests(target, maps)) {
    std::vector<std::byte> memory(rest.end - rest.begin);
    if (!target.memory->read(rest.begin, memory).ok()) continue;
    std::span<const std::byte> left = memory;
    const auto address = [&] { return rest.end - left.size(); };
    while (const std::size_t size = hook_code_size(left)) {
      const bool is_same = size == code.size() && std::ranges::equal(left.first(size), code);
      if (is_same || address() + kHookCodeHead == calls) return Place{address(), true};
      left = left.subspan(std::min<std::size_t>(rounded(size, kAlignment), left.size()));
    }
    if (code.size() <= left.size()) return Place{address(), false};
  }
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", target.pid,
                   ": none of its libraries has room for the code that loads the agent; start the "
                   "program with memprofctl run -- PROGRAM"));
}

absl::Status put_code(const Target& target, std::uint64_t address,
                      std::span<const std::byte> code) {
  const absl::Status written = target.memory->write(address, code);
  if (!absl::IsOutOfRange(written)) return written;
  return absl::PermissionDeniedError(absl::StrCat(
      "not allowed to write to the code of pid ", target.pid,
      ": the kernel may forbid it (proc_mem.force_override); start the program with memprofctl run "
      "-- PROGRAM"));
}

}  // namespace

std::vector<std::byte> hook_code(const HookCode& code) {
  std::vector<std::byte> bytes;
  append_word(bytes, kMagic);
  append_word(bytes, 0);
  bytes.insert(bytes.end(), memprof_hook_code, memprof_hook_code_words);
  for (const std::uint64_t word : {code.hook, code.before, code.dlopen}) append_word(bytes, word);
  const auto* path = reinterpret_cast<const std::byte*>(code.path.c_str());
  bytes.insert(bytes.end(), path, path + code.path.size() + 1);
  const std::uint64_t size = bytes.size();
  std::memcpy(bytes.data() + sizeof kMagic, &size, sizeof size);
  return bytes;
}

std::size_t hook_code_size(std::span<const std::byte> memory) {
  std::uint64_t head[2] = {};
  static_assert(sizeof head == kHookCodeHead);
  if (memory.size() < sizeof head) return 0;
  std::memcpy(head, memory.data(), sizeof head);
  const bool is_ours = head[0] == kMagic && head[1] > sizeof head && head[1] <= memory.size();
  return is_ours ? head[1] : 0;
}

absl::StatusOr<HookLoader> HookLoader::start(const Target& target, std::uint64_t dlopen,
                                             const std::string& agent_path) {
  const auto symbol = target.program->find_symbol("caml_minor_gc_end_hook");
  if (!symbol) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", target.pid,
                     " has no symbol caml_minor_gc_end_hook; start the program "
                     "with memprofctl run -- PROGRAM"));
  }
  HookCode code{.hook = symbol->address + target.load_bias, .dlopen = dlopen, .path = agent_path};
  RETURN_IF_ERROR(target.memory->read_value(code.hook, code.before));
  const std::vector<std::byte> bytes = hook_code(code);
  ASSIGN_OR_RETURN(const Place place, find_place(target, bytes, code.before));
  const std::uint64_t first = place.address + kHookCodeHead;
  if (!place.is_there) RETURN_IF_ERROR(put_code(target, place.address, bytes));
  // The kernel copies an aligned word at once, so no thread can read half of it.
  if (code.before != first) {
    RETURN_IF_ERROR(target.memory->write_value(code.hook, first));
  } else {  // set by a run that was killed
    const std::uint64_t words = first + (memprof_hook_code_words - memprof_hook_code);
    RETURN_IF_ERROR(target.memory->read_value(words + 8, code.before));
  }
  return HookLoader(target, code.hook, first, code.before);
}

absl::StatusOr<HookLoader::Progress> HookLoader::progress() const {
  std::uint64_t now = 0;
  RETURN_IF_ERROR(target_->memory->read_value(hook_, now));
  if (now == code_) return Progress::kWaiting;
  return now == before_ ? Progress::kLoading : Progress::kLoaded;
}

}  // namespace memprofd
