// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/uprobe_link.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "absl/strings/str_format.h"
#include "daemon/attach/kernel/uprobe_session.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/log.h"
#include "daemon/util/read_in.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"

// Begins with an instruction that the kernel emulates.
extern "C" void memprofd_probe_here();
asm(R"(
  .text
  .type memprofd_probe_here, @function
memprofd_probe_here:
  nop
  ret
  .size memprofd_probe_here, . - memprofd_probe_here
)");

namespace memprofd {
namespace {

// BPF_TRACE_UPROBE_MULTI of enum bpf_attach_type.
constexpr auto kUprobeMulti = static_cast<bpf_attach_type>(48);
constexpr auto kUprobeSession = static_cast<bpf_attach_type>(57);  // BPF_TRACE_UPROBE_SESSION

// The arguments of BPF_LINK_CREATE for it: union bpf_attr, link_create.uprobe_multi, in
// include/uapi/linux/bpf.h since Linux 6.6. The headers of the build may be older.
struct UprobeMultiArguments {
  std::uint32_t prog_fd = 0;
  std::uint32_t target_fd = 0;  // must be 0
  std::uint32_t attach_type = kUprobeMulti;
  std::uint32_t link_flags = 0;
  std::uint64_t path = 0;             // char *
  std::uint64_t offsets = 0;          // u64[cnt]
  std::uint64_t ref_ctr_offsets = 0;  // u64[cnt] or null
  std::uint64_t cookies = 0;
  std::uint32_t cnt = 1;
  std::uint32_t flags = 0;
  std::uint32_t pid = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(UprobeMultiArguments) == 64);

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// A path that names the descriptor's file and no other.
std::string path_of(const SharedFd& file) {
  return absl::StrFormat("/proc/self/fd/%d", file->get());
}

UniqueFd create_link(const UprobeMultiArguments& arguments) {
  return UniqueFd(
      static_cast<int>(::syscall(SYS_bpf, BPF_LINK_CREATE, &arguments, sizeof arguments)));
}

// Returns no descriptor, and sets errno, if the kernel refuses.
UniqueFd create_multi_link(int program_fd, int pid, const ProbeSite& site,
                           bpf_attach_type type = kUprobeMulti) {
  const std::string path = path_of(site.file);
  UprobeMultiArguments arguments;
  arguments.attach_type = type;
  arguments.prog_fd = static_cast<std::uint32_t>(program_fd);
  arguments.path = address_of(path.c_str());
  arguments.offsets = address_of(&site.offset);
  if (site.semaphore_offset != 0) arguments.ref_ctr_offsets = address_of(&site.semaphore_offset);
  arguments.pid = static_cast<std::uint32_t>(pid);
  return create_link(arguments);
}

absl::StatusOr<UniqueFd> link_all(const bpf_program* program, bpf_attach_type type, int pid,
                                  const ProbeSites& sites, std::string_view what) {
  read_in(sites.file->get(), sites.offsets);
  const std::string path = path_of(sites.file);
  UprobeMultiArguments arguments;
  arguments.attach_type = type;
  arguments.prog_fd = static_cast<std::uint32_t>(bpf_program__fd(program));
  arguments.path = address_of(path.c_str());
  arguments.offsets = address_of(sites.offsets.data());
  arguments.cookies = address_of(sites.cookies.data());
  arguments.cnt = static_cast<std::uint32_t>(sites.offsets.size());
  arguments.pid = static_cast<std::uint32_t>(pid);
  UniqueFd link = create_link(arguments);
  if (link) return link;
  return bpf_attach_error(
      what, absl::StrFormat("pid %d at %u file offsets", pid, sites.offsets.size()), errno);
}

// Loads a program that records in the map that it has run.
UniqueFd load_note_program(int map_fd, bpf_attach_type type) {
  const std::array<bpf_insn, 5> code = {{
      {.code = BPF_LD | BPF_DW | BPF_IMM,
       .dst_reg = BPF_REG_1,
       .src_reg = BPF_PSEUDO_MAP_VALUE,
       .off = 0,
       .imm = map_fd},
      {},
      {.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = 0, .off = 0, .imm = 1},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  }};
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = type);
  return UniqueFd(bpf_prog_load(BPF_PROG_TYPE_KPROBE, "memprofd_note", "GPL", code.data(),
                                code.size(), &options));
}

// Tries a link to this process with a hit by another thread than the one that names the process:
// kernels before 6.10 that lack a fix run the program for that one only.
bool links_work(bpf_attach_type type) {
  const auto site = site_in_this_program(address_of(reinterpret_cast<void*>(memprofd_probe_here)));
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "memprofd_note", sizeof(std::uint32_t),
                                    sizeof(std::uint64_t), 1, nullptr));
  const UniqueFd program(map ? load_note_program(map.get(), type) : UniqueFd());
  if (!site || !program) return false;
  const UniqueFd link = create_multi_link(program.get(), ::getpid(), *site, type);
  if (!link) return false;
  auto thread = start_thread("to try a probe", memprofd_probe_here);
  if (!thread.ok()) return false;
  thread->join();
  const std::uint32_t key = 0;
  std::uint64_t ran = 0;
  return bpf_map_lookup_elem(map.get(), &key, &ran) == 0 && ran == 1;
}

}  // namespace

UprobeKind best_uprobe_kind() {
  static const UprobeKind kind = [] {
    const bool multi = links_work(kUprobeMulti);
    log_debug("probes are {}", multi ? "uprobe_multi links" : "perf events");
    return multi ? UprobeKind::kMultiLink : UprobeKind::kPerfEvent;
  }();
  return kind;
}

bool uprobe_sessions_work() {
  static const bool work = links_work(kUprobeSession);
  return work;
}

std::optional<ProbeSite> site_in_this_program(std::uint64_t address) {
  const auto maps = ProcFs().maps(::getpid());
  auto file = std::make_shared<const UniqueFd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!maps.ok() || !*file) return std::nullopt;
  for (const Mapping& mapping : *maps) {
    if (mapping.begin <= address && address < mapping.end)
      return ProbeSite{.file = std::move(file), .offset = address - mapping.begin + mapping.offset};
  }
  return std::nullopt;
}

void choose_uprobe_kind(bpf_program* program, UprobeKind kind) {
  if (kind == UprobeKind::kMultiLink)
    (void)bpf_program__set_expected_attach_type(program, kUprobeMulti);
}

void choose_uprobe_session(bpf_program* program) {
  (void)bpf_program__set_expected_attach_type(program, kUprobeSession);
}

absl::StatusOr<UprobeLink> UprobeLink::attach(const bpf_program* program, UprobeKind kind, int pid,
                                              const ProbeSite& site, std::string_view what) {
  UprobeLink result;
  read_in(site.file->get(), {&site.offset, 1});
  if (kind == UprobeKind::kMultiLink) {
    result.link_ = create_multi_link(bpf_program__fd(program), pid, site);
  } else {
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = site.semaphore_offset,
                .bpf_cookie = site.cookie);
    result.event_.reset(bpf_program__attach_uprobe_opts(program, pid, path_of(site.file).c_str(),
                                                        site.offset, &options));
  }
  if (result) return result;
  return bpf_attach_error(what, absl::StrFormat("pid %d at file offset 0x%x", pid, site.offset),
                          errno);
}

absl::StatusOr<UprobeLink> UprobeLink::attach_all(const bpf_program* program, int pid,
                                                  const ProbeSites& sites, std::string_view what) {
  UprobeLink result;
  ASSIGN_OR_RETURN(result.link_, link_all(program, kUprobeMulti, pid, sites, what));
  return result;
}

absl::StatusOr<UniqueFd> attach_session(const bpf_program* program, int pid,
                                        const ProbeSites& sites, std::string_view what) {
  return link_all(program, kUprobeSession, pid, sites, what);
}

}  // namespace memprofd
