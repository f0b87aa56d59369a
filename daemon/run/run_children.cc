// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/run_children.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/base_name.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPatienceNs = 1'000'000'000;  // for a request
constexpr int kBacklog = 4096;  // connections that gave up before they were accepted count too
constexpr char kGaveUp[] = "ended, or did not wait for a reply";
constexpr int kAncestors = 64;  // number of ancestors that are examined

absl::Status no_socket() {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a socket for the program's children: ", std::strerror(errno),
                   "; use --children no to run without it"));
}

// True if an agent in that program has taken memory before: the program is linked with the agent
// that is also loaded into it. Mappings of an earlier program of the process are gone after exec.
bool has_taken_memory(int pid) {
  const std::string memory = absl::StrCat("/memfd:", SharedAgent::kMemoryName);
  const auto maps = ProcFs().maps(pid);
  return maps.ok() && std::ranges::any_of(*maps, [&](const Mapping& mapping) {
           return mapping.path.starts_with(memory);
         });
}

bool descends_from_us(int pid) {
  for (int i = 0; i < kAncestors && pid > 1; ++i) {
    pid = ProcFs().parent(pid).value_or(0);
    if (pid == ::getpid()) return true;
  }
  return false;
}

bool send_descriptor(int connection, int descriptor) {
  char answer = 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  iovec data{&answer, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool add_to(int ready, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(ready, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

RunChildren::RunChildren(std::string name, UniqueFd listener, UniqueFd ready,
                         const ShareOptions& options, RunPrograms& programs, RunChildrenUser& user)
    : name_(std::move(name)),
      listener_(std::move(listener)),
      ready_(std::move(ready)),
      options_(options),
      programs_(programs),
      user_(user) {}

absl::StatusOr<std::unique_ptr<RunChildren>> RunChildren::create(const ShareOptions& options,
                                                                 RunPrograms& programs,
                                                                 RunChildrenUser& user) {
  std::uint64_t random[2] = {};
  if (::getrandom(random, sizeof random, 0) != sizeof random) return no_socket();
  std::string name = absl::StrCat("memprof-run-", absl::Hex(random[0], absl::kZeroPad16),
                                  absl::Hex(random[1], absl::kZeroPad16));
  static_assert(MEMPROF_SHARE_NAME > 12 + 32);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());  // abstract: no file is left behind
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd ready(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener || !ready ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener.get(), kBacklog) != 0 || !add_to(ready.get(), listener.get())) {
    return no_socket();
  }
  ShareOptions of_children = options;
  of_children.ring_bytes = kRingBytes;
  return std::unique_ptr<RunChildren>(new RunChildren(
      std::move(name), std::move(listener), std::move(ready), of_children, programs, user));
}

void RunChildren::refuse(const std::string& program, const std::string& reason) {
  std::pair key(program, reason);
  if (not_profiled_.size() >= kMaxNames && !not_profiled_.contains(key)) {
    ++unnamed_;
  } else {
    ++not_profiled_[std::move(key)];
  }
}

void RunChildren::accept_all() {
  while (waiting_.size() < kMaxWaiting) {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) return;
    Waiting waiting{std::move(connection), {}, monotonic_ns()};
    socklen_t length = sizeof waiting.peer;
    if (::getsockopt(waiting.connection.get(), SOL_SOCKET, SO_PEERCRED, &waiting.peer, &length) !=
        0) {
      continue;
    }
    if (waiting.peer.uid != ::geteuid() && !descends_from_us(waiting.peer.pid)) {
      ++unnamed_;
      continue;
    }
    if (serve(waiting)) continue;
    add_to(ready_.get(), waiting.connection.get());
    waiting_.push_back(std::move(waiting));
  }
}

bool RunChildren::serve(Waiting& waiting) {
  memprof_share_request request{};
  const ssize_t length = ::recv(waiting.connection.get(), &request, sizeof request, 0);
  if (length < 0 && errno == EAGAIN) return monotonic_ns() - waiting.since_ns > kPatienceNs;
  if (length != sizeof request || request.magic != MEMPROF_SHARE_MAGIC) {
    ++unnamed_;
    return true;
  }
  start(waiting, request);
  return true;
}

void RunChildren::start(const Waiting& waiting, const memprof_share_request& request) {
  const std::string program(base_name({request.exe, ::strnlen(request.exe, sizeof request.exe)}));
  if (request.kind == MEMPROF_SHARE_NO_RUNTIME) {
    return refuse(program, "has no OCaml runtime of its own");
  }
  if (request.abi_version != MEMPROF_AGENT_ABI) {
    return refuse(program, "has the agent of another version of memprofd");
  }
  const int pid = waiting.peer.pid;
  if (request.kind == MEMPROF_SHARE_STARTED && has_taken_memory(pid)) return;
  // Ends the process's earlier program, if it has called exec.
  for (Child& child : children_) {
    if (child.pid == pid) end(child, {.cause = EndCause::kExec});
  }
  std::erase_if(children_, [](const Child& child) { return child.target == nullptr; });
  if (children_.size() >= kMaxTargets) {
    return refuse(program,
                  absl::StrCat("exceeds the limit of ", kMaxTargets, " processes at a time"));
  }
  Child child{pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), nullptr,
              request.kind == MEMPROF_SHARE_FORKED};
  const auto found = programs_.find(absl::StrCat("/proc/", pid, "/exe"));
  if (absl::IsNotFound(found.status())) return refuse(program, kGaveUp);
  if (!found.ok()) return refuse(program, std::string(found.status().message()));
  auto target = RunTarget::create(programs_, pid, *found, options_);
  if (!target.ok()) return refuse(program, std::string(target.status().message()));
  child.target = *std::move(target);
  if (!send_descriptor(waiting.connection.get(), child.target->descriptor())) {
    return refuse(program, kGaveUp);
  }
  children_.push_back(std::move(child));
}

void RunChildren::read(Child& child) {
  child.target->update();
  if (child.began || !child.target->begun()) return;
  child.began = true;
  user_.began(*child.target);
}

void RunChildren::end(Child& child, const ProgramEnd& how) {
  read(child);
  RunTarget& target = *child.target;
  if (child.began) {
    target.finish(how);
    user_.ended(target, child.forked);
  } else {
    refuse(target.comm(), target.problem().empty() ? std::string(kGaveUp) : target.problem());
  }
  child.target = nullptr;
}

bool RunChildren::has_ended(const Child& child) {
  if (!child.pidfd) return ::kill(child.pid, 0) != 0 && errno == ESRCH;
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1;
}

void RunChildren::update() {
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    if (serve(waiting_[i])) waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  accept_all();
  for (Child& child : children_) {
    if (has_ended(child)) {
      end(child, {});
    } else {
      read(child);
    }
  }
  std::erase_if(children_, [](const Child& child) { return child.target == nullptr; });
}

void RunChildren::finish() {
  update();
  for (Child& child : children_) {
    child.target->withdraw();
    end(child, {});
  }
  children_.clear();
  unnamed_ += waiting_.size();
  waiting_.clear();
}

}  // namespace memprofd
