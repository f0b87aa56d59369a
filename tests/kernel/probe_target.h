// SPDX-License-Identifier: Apache-2.0
// A target for the kernel side that is no OCaml program: a forked child with
// functions that look to the probes like the runtime's and the agent's, hit on
// command. Memory at Shared is common to child and test, at one address.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "agent-lib/include/memprof_agent_abi.h"

extern "C" {
// caml_collect_current_callstack(buffer, length, max_frames, alloc_idx) and its
// callers, that start with the same instruction as the real ones.
void probe_target_collect(void*, void*, long, int alloc_idx);
void probe_target_user_callstack(void*, void*, long, int alloc_idx);
void probe_target_track_interned(void*, void*, long, int alloc_idx);
extern char probe_target_user_callstack_end[], probe_target_track_interned_end[];
void probe_target_safe_point();
void probe_target_register_frametable();
// memprof:batch and its semaphore.
void probe_target_batch(const void* records, unsigned count, std::uint64_t first_seq,
                        unsigned generation, unsigned buffer, unsigned format);
extern volatile std::uint16_t probe_target_semaphore;
}

// Weak, because several test files have them.
#define PROBE_TARGET_CALLER(name) \
  ".weak " name "\n" name         \
  ":\n"                           \
  "  sub $40, %rsp\n"             \
  "  call probe_target_collect\n" \
  "  add $40, %rsp\n"             \
  "  ret\n"                       \
  ".weak " name "_end\n" name "_end:\n"

asm(".pushsection .text\n"
    ".weak probe_target_collect\nprobe_target_collect:\n  push %r15\n  pop %r15\n  ret\n"
    ".weak probe_target_safe_point\nprobe_target_safe_point:\n  push %r15\n  pop %r15\n  ret\n"
    ".weak probe_target_register_frametable\n"
    "probe_target_register_frametable:\n  push %r15\n  pop %r15\n  ret\n"
    ".weak probe_target_batch\nprobe_target_batch:\n  nop\n  ret\n"
    PROBE_TARGET_CALLER("probe_target_user_callstack")
    PROBE_TARGET_CALLER("probe_target_track_interned")
    ".popsection\n"
    ".pushsection .data\n"
    ".weak probe_target_semaphore\n.balign 2\nprobe_target_semaphore: .2byte 0\n"
    ".popsection\n");

namespace memprofd {

class ProbeTarget {
 public:
  struct Shared {
    std::uint64_t domain_state[4];  // bottom_of_stack at 8, last_return_address at 16
    memprof_record records[MEMPROF_BATCH_RECORDS];
    volatile int signals;     // SIGURG seen
    volatile int signal_tid;  // by this thread
    std::uint64_t stack[1 << 20];
  };
  enum class Caller { kMemprof, kInterned, kUser };

  // own_namespace: the child is process 1 of its own pid namespace.
  explicit ProbeTarget(bool own_namespace = false) {
    shared_ = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    int fds[2];
    if (shared_ == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
      std::abort();
    pid_ = own_namespace ? static_cast<int>(syscall(SYS_clone, CLONE_NEWPID_ | SIGCHLD, 0, 0, 0, 0))
                         : fork();
    if (pid_ == 0) {
      close(fds[0]);
      serve(fds[1]);
    }
    close(fds[1]);
    fd_ = fds[0];
  }
  ~ProbeTarget() {
    if (has_left_) kill(pid_, SIGKILL);
    shutdown(fd_, SHUT_RDWR);  // the child's receive fails and it ends
    close(fd_);
    waitpid(pid_, nullptr, 0);
    munmap(shared_, sizeof(Shared));
  }

  int pid() const { return pid_; }
  Shared& shared() { return *shared_; }

  // Each hits one probe in the child and returns when the child is past it,
  // with the child's thread id in its own numbering.
  int collect(int alloc_idx, Caller caller = Caller::kMemprof) {
    return call(
        {kCollect, static_cast<std::uint64_t>(caller), static_cast<std::uint64_t>(alloc_idx)});
  }
  int collect_on_new_thread(int alloc_idx) {
    return call({kCollectOnThread, 0, static_cast<std::uint64_t>(alloc_idx)});
  }
  int batch(std::uint64_t records, std::uint32_t count, std::uint64_t first_seq,
            std::uint32_t generation, std::uint32_t buffer = 0,
            std::uint32_t format = MEMPROF_BATCH_PLAIN) {
    return call({kBatch, records, count, first_seq, generation, buffer, format});
  }
  int safe_point() { return call({kSafePoint}); }
  int register_frametable() { return call({kFrametable}); }
  int semaphore() { return call({kSemaphore}); }
  // Becomes another program and ends.
  void exec() { send({kExec}); }
  // Becomes a program that stays until it is killed; returns when it has.
  void exec_sleep() {
    send({kExecSleep});
    char end;
    if (recv(fd_, &end, 1, 0) != 0) std::abort();  // closed by the exec
    has_left_ = true;
  }
  // Maps the first two pages of the test's file descriptor, code and data, as a dynamic linker
  // does; answers the two bytes where the data begins.
  int map_file(int fd) { return call({kMapFile, static_cast<std::uint64_t>(fd)}); }
  int call_mapped() { return call({kCallMapped}); }
  // Forks a child that hits the capture probe and stays until ask_child.
  int fork_child() { return call({kFork}); }
  // The child's semaphore; ends the child.
  int ask_child() { return call({kAskChild}); }
  void wait_for_end() { waitpid(pid_, nullptr, 0); }

 private:
  static constexpr unsigned long CLONE_NEWPID_ = 0x20000000;
  enum Op {
    kCollect,
    kCollectOnThread,
    kBatch,
    kSafePoint,
    kFrametable,
    kSemaphore,
    kExec,
    kExecSleep,
    kMapFile,
    kCallMapped,
    kFork,
    kAskChild
  };
  struct Command {
    std::uint64_t op = 0, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
  };

  void send(Command command) {
    if (::send(fd_, &command, sizeof(command), MSG_NOSIGNAL) != sizeof(command)) std::abort();
  }
  int call(Command command) {
    send(command);
    int reply = -1;
    if (recv(fd_, &reply, sizeof(reply), 0) != sizeof(reply)) std::abort();
    return reply;
  }

  static int own_tid() { return static_cast<int>(syscall(SYS_gettid)); }

  [[noreturn]] void serve(int fd) {
    self_ = shared_;
    // Maps the pages here too: a probe reads only what is present.
    madvise(shared_, sizeof(Shared), MADV_POPULATE_WRITE);
    std::signal(SIGURG, [](int) {
      self_->signals = self_->signals + 1;
      self_->signal_tid = own_tid();
    });
    Command command;
    while (recv(fd, &command, sizeof(command), 0) == sizeof(command)) {
      const int reply = run(command);
      (void)::send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    }
    _exit(0);
  }

  static int collect_now(Caller caller, int alloc_idx) {
    // Zeroes where the search for callers would see earlier return addresses.
    volatile char clean[2048] = {};
    (void)clean[0];
    if (caller == Caller::kUser)
      probe_target_user_callstack(nullptr, nullptr, 256, alloc_idx);
    else if (caller == Caller::kInterned)
      probe_target_track_interned(nullptr, nullptr, 256, alloc_idx);
    else
      probe_target_collect(nullptr, nullptr, 256, alloc_idx);
    return own_tid();
  }

  static int map_pages(int fd) {
    const std::string path = "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(fd);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* code = mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    void* data =
        mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, static_cast<off_t>(page));
    if (code == MAP_FAILED || data == MAP_FAILED) return -1;
    mapped_code_ = reinterpret_cast<void (*)()>(code);
    return *static_cast<const volatile std::uint16_t*>(data);
  }

  static int fork_now() {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return -1;
    const int child = fork();
    if (child == 0) {
      close(in[1]);
      collect_now(Caller::kMemprof, 0);
      char go;
      (void)!read(in[0], &go, 1);
      const int semaphore = probe_target_semaphore;
      (void)!write(out[1], &semaphore, sizeof(semaphore));
      _exit(0);
    }
    close(in[0]);
    close(out[1]);
    child_in_ = in[1];
    child_out_ = out[0];
    return child;
  }

  static int run(const Command& command) {
    const int alloc_idx = static_cast<int>(command.b);
    switch (command.op) {
      case kCollect:
        return collect_now(static_cast<Caller>(command.a), alloc_idx);
      case kCollectOnThread: {
        int tid = 0;
        std::thread([&] { tid = collect_now(Caller::kMemprof, alloc_idx); }).join();
        return tid;
      }
      case kBatch:
        probe_target_batch(reinterpret_cast<const void*>(command.a),
                           static_cast<unsigned>(command.b), command.c,
                           static_cast<unsigned>(command.d), static_cast<unsigned>(command.e),
                           static_cast<unsigned>(command.f));
        return own_tid();
      case kSafePoint:
        probe_target_safe_point();
        return own_tid();
      case kFrametable:
        probe_target_register_frametable();
        return own_tid();
      case kSemaphore:
        return probe_target_semaphore;
      case kExecSleep:
        execl("/bin/sleep", "sleep", "1000", nullptr);
        _exit(1);
      case kMapFile:
        return map_pages(static_cast<int>(command.a));
      case kCallMapped:
        mapped_code_();
        return own_tid();
      case kFork:
        return fork_now();
      case kAskChild: {
        int semaphore = -1;
        (void)!write(child_in_, "", 1);
        (void)!read(child_out_, &semaphore, sizeof(semaphore));
        waitpid(-1, nullptr, 0);
        return semaphore;
      }
      default:
        execl("/bin/true", "true", nullptr);
        _exit(1);
    }
  }

  // In the child: for the signal handler, what was mapped, its own child's pipes.
  static inline Shared* self_ = nullptr;
  static inline void (*mapped_code_)() = nullptr;
  static inline int child_in_ = -1, child_out_ = -1;
  Shared* shared_ = nullptr;
  int pid_ = -1;
  bool has_left_ = false;  // runs another program
  int fd_ = -1;
};

}  // namespace memprofd
