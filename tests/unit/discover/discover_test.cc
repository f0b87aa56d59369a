// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <future>

#include "daemon/attach/agent_plan.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/program_check.h"
#include "daemon/discover/target.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

// A tree with one process, this one: system calls on its pid work.
class FakeProc {
 public:
  explicit FakeProc(char state = 'S', int parent = 1) : pid_(::getpid()) {
    const std::string pid = std::to_string(pid_);
    dir_.write(pid + "/status", std::string("State:\t") + state + "\nTgid:\t" + pid + "\n");
    dir_.write(pid + "/stat", pid + " (fake) S " + std::to_string(parent) +
                                  " 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n");
    dir_.write(pid + "/comm", "fake\n");
    dir_.write(pid + "/maps", "");
    dir_.link(pid + "/mem", "/proc/self/mem");
  }
  void set_exe(const std::string& path) { dir_.link(std::to_string(pid_) + "/exe", path); }
  std::string write(const std::string& name, const std::string& contents) {
    return dir_.write(name, contents);
  }
  absl::Status discover() const { return discover_target(pid_, dir_.path()).status(); }
  std::string message() const { return std::string(discover().message()); }
  std::string pid() const { return std::to_string(pid_); }
  const TempDir& dir() const { return dir_; }

 private:
  int pid_;
  TempDir dir_;
};

TEST(Discover, NoSuchProcess) {
  TempDir empty;
  const absl::Status status = discover_target(4242, empty.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no process with pid 4242");
  EXPECT_EQ(discover_target(0x7ffffffe).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(discover_target(-1).status().code(), StatusCode::kNotFound);
}

TEST(Discover, Zombie) {
  const FakeProc proc('Z');
  EXPECT_EQ(proc.discover().code(), StatusCode::kNotFound);
  EXPECT_THAT(proc.message(), HasSubstr("zombie"));
}

TEST(Discover, RealZombie) {
  Child child({"sleep", "1000"});
  child.make_zombie();
  const absl::Status status = discover_target(child.pid()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("zombie"));
}

TEST(Discover, KernelThread) {
  constexpr int kKthreadd = 2;
  const FakeProc proc('S', kKthreadd);  // no exe link
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(proc.message(),
            "pid " + proc.pid() + " (fake) is a kernel thread, not an OCaml program");
}

TEST(Discover, AnEndingProcessIsNotAKernelThread) {
  const FakeProc proc('R');  // no exe link any more
  EXPECT_EQ(proc.discover(),
            absl::NotFoundError("pid " + proc.pid() + " ended while it was being inspected"));
}

TEST(Discover, ThreadOfAnotherProcess) {
  FakeProc proc;
  proc.set_exe("/bin/true");
  proc.write(proc.pid() + "/status", "State:\tS\nTgid:\t41\n");
  EXPECT_EQ(proc.message(), "pid " + proc.pid() + " is a thread of process 41: use pid 41");
}

// Held where exec has just returned: no line of it has run.
int start_and_hold(const std::string& program) {
  const int pid = ::fork();
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status));
  return pid;
}

TEST(Discover, WaitsForOneThatHasJustBegun) {
  const TempDir dir;
  const std::string program =
      compile_ocaml(dir, "begins", "let () = Unix.sleep 1000", "-g -linkpkg");
  ASSERT_FALSE(program.empty());
  const int pid = start_and_hold(program);
  auto look = std::async(std::launch::async, [pid] { return discover_target(pid).status(); });
  EXPECT_EQ(look.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  EXPECT_EQ(look.get(), absl::OkStatus());
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(Discover, DoesNotWaitForEver) {
  const TempDir dir;
  const std::string program =
      compile_ocaml(dir, "never", "let () = Unix.sleep 1000", "-g -linkpkg");
  ASSERT_FALSE(program.empty());
  const int pid = start_and_hold(program);
  const absl::Status status = discover_target(pid).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has not started its OCaml runtime yet"));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// Moves the page with the state of the runtime away, as if exec had not mapped it yet, until a line
// is written to the program.
constexpr char kHole[] = R"(
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((constructor)) static void hole(void) {
  const uintptr_t state = (uintptr_t)dlsym(RTLD_DEFAULT, "Caml_state");
  if (state == 0) return;
  void* page = (void*)(state & ~(uintptr_t)4095);
  void* away = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, away);
  char byte = '\n';
  if (write(1, &byte, 1) != 1 || read(0, &byte, 1) != 1) return;
  mremap(away, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page);
}
)";

TEST(Discover, WaitsForOneWhoseMemoryIsNotMappedYet) {
  const TempDir dir;
  const std::string program = compile_ocaml(dir, "maps", "let () = Unix.sleep 1000", "-g -linkpkg");
  ASSERT_FALSE(program.empty());
  const std::string library = dir.path("hole.so");
  const std::string build = "cc -shared -fPIC -o " + library + " " + dir.write("hole.c", kHole);
  ASSERT_EQ(std::system(build.c_str()), 0);
  Child child({"env", "LD_PRELOAD=" + library, program});
  child.read_line();
  auto look = std::async(std::launch::async, [&] { return discover_target(child.pid()).status(); });
  EXPECT_EQ(look.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  child.write_line("");
  EXPECT_EQ(look.get(), absl::OkStatus());
}

// A dlopen that fails for want of mappings leaves the file as it was mapped first: read only.
TEST(Discover, PartsOfAnAgentAreNotAnAgent) {
  const std::string path = "/lib/libmemprof_agent.so";
  std::vector<Mapping> maps{{.begin = 0x1000, .end = 0x3000, .executable = true, .path = path},
                            {.begin = 0x3000, .end = 0x5000, .readable = true, .path = path}};
  const AgentLocation agent{.control_address = 0x4800, .semaphore_address = 0x4100};
  EXPECT_FALSE(has_its_data(agent, maps));
  maps[1].writable = true;
  EXPECT_TRUE(has_its_data(agent, maps));
  maps[1].end = 0x4800;
  EXPECT_FALSE(has_its_data(agent, maps)) << "the control block is not mapped";
}

TEST(Discover, NotElf) {
  FakeProc proc;
  const std::string script = proc.write("script", "#!/bin/sh\n");
  proc.set_exe(script);
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(proc.message(), "pid " + proc.pid() + ": " + script + " is not an ELF file");
}

// A header alone, and a whole program, which the kernel here need not be able to run.
TEST(Discover, ThirtyTwoBit) {
  TempDir dir;
  const std::string header =
      dir.write("header", std::string("\x7f") + "ELF\x01\x01\x01" + std::string(60, '\0'));
  const std::string program = dir.path("tiny32");
  const std::string build = "cc -m32 -nostdlib -static tests/targets/bare/tiny32.S -o " + program;
  ASSERT_EQ(std::system(build.c_str()), 0) << build;
  for (const std::string& file : {header, program}) {
    FakeProc proc;
    proc.set_exe(file);
    EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(proc.message(), "pid " + proc.pid() + ": " + file +
                                  " is a 32-bit program; only 64-bit ones are supported");
  }
}

TEST(Discover, NotOcaml) {
  FakeProc proc;
  proc.set_exe("/bin/true");
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(proc.message(),
            "pid " + proc.pid() + " is not an OCaml program: no caml_frametable in /bin/true");
}

TEST(Discover, Bytecode) {
  FakeProc proc;
  proc.set_exe("/usr/bin/ocamlrun");
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(proc.message(),
            "pid " + proc.pid() +
                " runs OCaml bytecode in /usr/bin/ocamlrun: compile the program with ocamlopt to "
                "profile it");
}

TEST(Discover, StrippedStaticOcaml) {
  FakeProc proc;
  const std::string program =
      compile_ocaml(proc.dir(), "still", "let () = print_string \"x\"", "-ccopt -static -ccopt -s");
  ASSERT_FALSE(program.empty());
  proc.set_exe(program);
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(proc.message(), HasSubstr("looks like an OCaml program, but " + program +
                                        " is stripped and exports no symbols"));
}

// A fixed, static program has its symbols in .symtab only, where objcopy can rename them.
std::string without_symbols(FakeProc& proc, const std::vector<std::string>& names) {
  const std::string program =
      compile_ocaml(proc.dir(), "p", "let () = print_string Sys.ocaml_version", "-ccopt -static");
  const std::string copy = proc.dir().path("without");
  std::string command = "objcopy";
  for (const std::string& name : names) command += " --redefine-sym " + name + "=not_" + name;
  command += " '" + program + "' '" + copy + "'";
  return !program.empty() && std::system(command.c_str()) == 0 ? copy : "";
}

TEST(Discover, WithoutMemprofAProgramCanBeObserved) {
  FakeProc proc;
  const std::string path = without_symbols(proc, {"caml_memprof_start"});
  ASSERT_FALSE(path.empty());
  const auto file = ElfFile::open(path, path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto program = check_program(**file);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->why_no_agent, HasSubstr("runtime was built without Gc.Memprof"));
  EXPECT_EQ(program->why_no_observe, "");
  EXPECT_NE(program->symbols.slow_allocation.address, 0u);
}

TEST(Discover, WithoutTheSlowPathThereIsTheAgent) {
  FakeProc proc;
  const std::string path = without_symbols(proc, {"caml_alloc_small_dispatch"});
  ASSERT_FALSE(path.empty());
  const auto file = ElfFile::open(path, path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto program = check_program(**file);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->why_no_agent, "");
  EXPECT_THAT(program->why_no_observe, HasSubstr("no symbol caml_alloc_small_dispatch"));
}

TEST(Discover, WithoutEitherThereIsNothing) {
  FakeProc proc;
  const std::string path =
      without_symbols(proc, {"caml_memprof_start", "caml_alloc_small_dispatch"});
  ASSERT_FALSE(path.empty());
  proc.set_exe(path);
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(proc.message(), HasSubstr("runtime was built without Gc.Memprof"));
}

TEST(Discover, UnsupportedVersion) {
  FakeProc proc;
  const std::string program =
      compile_ocaml(proc.dir(), "p", "let () = print_string Sys.ocaml_version", "");
  ASSERT_FALSE(program.empty());
  std::string bytes = read_file(program);
  const std::size_t at = bytes.find("4.13.1");
  if (at == std::string::npos) GTEST_SKIP() << "this compiler is not OCaml 4.13.1";
  bytes.replace(at, 6, "4.10.2");
  const std::string patched = proc.write("patched", bytes);
  proc.set_exe(patched);
  EXPECT_EQ(proc.discover().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(proc.message(), "pid " + proc.pid() + " (" + patched +
                                "): OCaml 4.10.2 is not supported yet, only 4.11 to 4.14 and 5.0 "
                                "to 5.5 are");
}

// The process ended between the reads of its status and its stat.
TEST(Discover, VanishedInTheMiddle) {
  FakeProc proc;
  proc.set_exe("/bin/true");
  std::filesystem::remove(proc.dir().path(proc.pid() + "/stat"));
  EXPECT_EQ(proc.discover().code(), StatusCode::kNotFound);
}

// A failed read does not mean that the program has ended.
TEST(Discover, TooManyOpenFiles) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = discover_target(::getpid()).status();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("too many files open"), HasSubstr("LimitNOFILE=65536")));
}

constexpr char kServer[] = R"(
let[@inline never] leak n = Array.make n 0
let keep = ref []
let () =
  for i = 1 to 1000 do keep := leak i :: !keep done;
  print_endline (Printf.sprintf "%s %.0f" Sys.ocaml_version (Gc.minor_words ()));
  ignore (input_char stdin)
)";

class RealProgram : public testing::Test {
 protected:
  void start(const std::string& options) {
    path_ = compile_ocaml(dir_, "server", kServer, options);
    ASSERT_FALSE(path_.empty());
    child_ = std::make_unique<Child>(std::vector<std::string>{path_});
    line_ = child_->read_line();
    ASSERT_FALSE(line_.empty());
  }
  TempDir dir_;
  std::string path_;
  std::string line_;  // "VERSION MINOR_WORDS"
  std::unique_ptr<Child> child_;
};

void expect_complete(const Target& target, const std::string& path, const std::string& version) {
  EXPECT_EQ(target.abi.version, version);
  EXPECT_EQ(target.comm, "server.exe");
  EXPECT_EQ(target.exe, path);
  EXPECT_GT(target.start_time_ticks, 0u);
  EXPECT_TRUE(target.pidfd);
  EXPECT_NE(target.caml_state_address, 0u);
  EXPECT_TRUE(target.capture.cheap) << target.capture.instruction;
  EXPECT_GT(target.frames.descriptors().size(), 500u);
  EXPECT_EQ(target.frames.skipped, 0u);
  EXPECT_LT(target.user_callstack.begin, target.user_callstack.end);
  EXPECT_LT(target.track_interned.begin, target.track_interned.end);
  EXPECT_TRUE(target.agents.empty());
  // The probe's file bytes are the process's.
  std::byte in_memory;
  ASSERT_TRUE(target.memory->read_value(target.capture.address, in_memory).ok());
  EXPECT_EQ(static_cast<std::byte>(read_file(path)[target.capture.file_offset]), in_memory);
}

TEST_F(RealProgram, IsDescribedCompletely) {
  start("-g");
  auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  const std::string version = line_.substr(0, line_.find(' '));
  expect_complete(*target, path_, version);
  const auto gc = read_gc_stats(*target->memory, target->caml_state_address, target->abi);
  ASSERT_TRUE(gc.ok()) << gc.status();
  // Printing the line allocates some words after Gc.minor_words.
  EXPECT_NEAR(gc->minor_words, std::stod(line_.substr(line_.find(' '))), 2000);
  EXPECT_GT(gc->heap_words, 100'000u);

  child_->finish();
  std::filesystem::remove(path_);
  OcamlSymbolizer symbolizer(std::move(target->program), target->load_bias, target->frames,
                             LocationFormat::kLine);
  bool found = false;
  for (const FrameDescriptor& d : target->frames.descriptors()) {
    const auto locations = symbolizer.locations(d.return_address, -1);
    found |= locations[0].function == "Server.leak" && locations[0].line == 2;
  }
  EXPECT_TRUE(found) << "symbols are not readable after the program's end";
}

TEST_F(RealProgram, FixedAddressProgram) {
  start("-g -ccopt -no-pie");
  const auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  expect_complete(*target, path_, line_.substr(0, line_.find(' ')));
}

TEST_F(RealProgram, StaticProgramWithSymbols) {
  start("-g -ccopt -static");
  const auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  expect_complete(*target, path_, line_.substr(0, line_.find(' ')));
}

TEST_F(RealProgram, StrippedAndDeletedProgram) {
  start("-ccopt -s");
  std::filesystem::remove(path_);
  auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->exe, path_ + " (deleted)");
  const auto& first = target->frames.descriptors().front();
  OcamlSymbolizer symbolizer(std::move(target->program), target->load_bias, target->frames,
                             LocationFormat::kLine);
  EXPECT_EQ(symbolizer.locations(first.return_address, -1)[0].library, "server.exe");
}

TEST_F(RealProgram, MemoryCanBeWritten) {
  start("");
  const auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  const std::uint64_t address = target->caml_state_address + target->abi.stats;
  const double words = 12345;
  ASSERT_TRUE(target->memory->write_value(address, words).ok());
  double read = 0;
  ASSERT_TRUE(target->memory->read_value(address, read).ok());
  EXPECT_EQ(read, words);
  EXPECT_EQ(target->memory->write_value(0x10, words).code(), StatusCode::kOutOfRange);
  child_->finish();
  EXPECT_EQ(target->memory->read_value(address, read).code(), StatusCode::kNotFound);
}

TEST_F(RealProgram, IsTheSameProgramUntilItEnds) {
  start("");
  const auto target = discover_target(child_->pid());
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_TRUE(check_same_program(*target).ok());
  child_->make_zombie();
  EXPECT_EQ(check_same_program(*target).code(), StatusCode::kNotFound);
}

constexpr char kExecer[] = R"(
let () =
  Sys.set_signal Sys.sigusr1 (Sys.Signal_handle (fun _ ->
    Unix.execv Sys.executable_name Sys.argv));
  print_endline "ready";
  while true do ignore (input_char stdin) done
)";

// An exec of the same program, which neither name nor file shows, counts too.
TEST(CheckSameProgram, SeesAnExec) {
  TempDir dir;
  const std::string path = compile_ocaml(dir, "execer", kExecer, "-linkpkg");
  ASSERT_FALSE(path.empty());
  Child child({path});
  ASSERT_EQ(child.read_line(), "ready");
  const auto target = discover_target(child.pid());
  ASSERT_TRUE(target.ok()) << target.status();
  ::kill(child.pid(), SIGUSR1);
  ASSERT_EQ(child.read_line(), "ready");
  const absl::Status status = check_same_program(*target);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("started another program (exec)"));
}

constexpr char kAgent[] = R"(
struct { long words[4]; } memprof_agent_control = {{42}};
unsigned short semaphore __attribute__((section(".probes")));
void memprof_agent_poll(void) {
  __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
    ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
    "993: .8byte 990b\n.8byte 0\n.8byte semaphore\n"
    ".asciz \"memprof\"\n.asciz \"batch\"\n.asciz \"\"\n994: .balign 4\n.popsection\n");
}
)";

Mapping code_of(std::uint64_t begin, std::uint64_t inode, std::string path) {
  Mapping mapping;
  mapping.begin = begin;
  mapping.end = begin + 4096;
  mapping.executable = true;
  mapping.inode = inode;
  mapping.path = std::move(path);
  return mapping;
}

TEST(FindAgents, AgentsWhoseFileIsGone) {
  const auto program = ElfFile::open("/proc/self/exe", "this program");
  ASSERT_TRUE(program.ok()) << program.status();
  // No mapping begins at these addresses, so map_files does not show them.
  const std::vector<AgentLocation> found = find_agents(
      ProcFs(), ::getpid(),
      {code_of(0x1000, 1, "/gone/libmemprof_agent.so (deleted)"),
       code_of(0x3000, 1, "/gone/libmemprof_agent.so (deleted)"),
       code_of(0x5000, 2, "/memfd:memprof_agent (deleted)"), code_of(0x7000, 3, "/gone/libc.so.6")},
      **program, 0);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, "/gone/libmemprof_agent.so (deleted)");
  EXPECT_EQ(found[1].path, "/memfd:memprof_agent (deleted)");
  EXPECT_EQ(found[0].control_address + found[1].control_address, 0u);
}

TEST(AgentPlan, NoSecondAgentBesideOneThatIsHidden) {
  Target target;
  target.pid = ::getpid();
  target.agents = {{.path = "/gone/libmemprof_agent.so (deleted)"}};
  const auto plan = read_agent_status(target);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->why_none,
              testing::AllOf(HasSubstr("whose file is gone (/gone/libmemprof_agent.so"),
                             HasSubstr("restart the program")));
}

// A preloaded agent is found, also after another file has taken its name: the path still has to
// open the mapped file.
TEST(FindAgents, PreloadedAgent) {
  TempDir dir;
  dir.write("agent.c", kAgent);
  const std::string agent = dir.path("agent.so");
  const std::string compile =
      "gcc -O1 -shared -fPIC '" + dir.path("agent.c") + "' -o '" + agent + "'";
  ASSERT_EQ(std::system(compile.c_str()), 0);
  const std::string program = compile_ocaml(dir, "server", kServer);
  ASSERT_FALSE(program.empty());
  Child child({"env", "LD_PRELOAD=" + agent, program});
  ASSERT_FALSE(child.read_line().empty());
  const auto target = discover_target(child.pid());
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_EQ(target->agents.size(), 1u);
  const AgentLocation& found = target->agents[0];
  EXPECT_EQ(found.path, "/proc/" + std::to_string(child.pid()) + "/root" + agent);
  long word = 0;
  ASSERT_TRUE(target->memory->read_value(found.control_address, word).ok());
  EXPECT_EQ(word, 42);
  EXPECT_EQ(read_file(found.path)[found.probe_offset], '\x90');
  EXPECT_NE(found.poll_address, 0u);
  EXPECT_NE(found.semaphore_offset, 0u);

  std::filesystem::remove(agent);
  dir.write("agent.so", "another file");
  const auto again = discover_target(child.pid());
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->agents.size(), 0u + (::geteuid() == 0 ? 1 : 0));
  if (again->agents.empty()) return;  // map_files is for root only
  EXPECT_THAT(again->agents[0].path, HasSubstr("/map_files/"));
  EXPECT_EQ(read_file(again->agents[0].path)[found.probe_offset], '\x90');
  // The file has been open since it was parsed, whatever has its name by now.
  EXPECT_EQ(read_file("/proc/self/fd/" + std::to_string(found.file->get()))[found.probe_offset],
            '\x90');
}

// Linked into the program itself.
TEST(FindAgents, LinkedAgent) {
  TempDir dir;
  dir.write("agent.c", kAgent);
  const std::string compile =
      "gcc -O1 -c -fPIC '" + dir.path("agent.c") + "' -o '" + dir.path("agent.o") + "'";
  ASSERT_EQ(std::system(compile.c_str()), 0);
  const std::string program = compile_ocaml(dir, "server", kServer, "-g -ccopt agent.o");
  ASSERT_FALSE(program.empty());
  Child child({program});
  ASSERT_FALSE(child.read_line().empty());
  const auto target = discover_target(child.pid());
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_EQ(target->agents.size(), 1u);
  EXPECT_EQ(target->agents[0].path, "/proc/" + std::to_string(child.pid()) + "/exe");
  EXPECT_EQ(target->agents[0].file, target->program_file);
  long word = 0;
  ASSERT_TRUE(target->memory->read_value(target->agents[0].control_address, word).ok());
  EXPECT_EQ(word, 42);
}

}  // namespace
}  // namespace memprofd
