// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/util/clock.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

bool is_readable(int socket, int timeout_ms) {
  pollfd wait{socket, POLLIN, 0};
  int ready;
  while ((ready = ::poll(&wait, 1, timeout_ms)) < 0 && errno == EINTR) {
  }
  return ready > 0;  // an answer, or the end of the server
}

// The sockets of hung servers; each becomes readable when its server runs again.
struct Abandoned {
  Mutex mutex;
  std::vector<UniqueFd> sockets ABSL_GUARDED_BY(mutex);

  void add(UniqueFd socket) {
    const MutexLock lock(mutex);
    sockets.push_back(std::move(socket));
  }
  std::size_t count() {
    const MutexLock lock(mutex);
    std::erase_if(sockets, [](const UniqueFd& socket) { return is_readable(socket.get(), 0); });
    return sockets.size();
  }
};

Abandoned& abandoned_servers() {
  static auto* const servers = new Abandoned;
  return *servers;
}

std::atomic<std::uint64_t> all_servers_cpu_ns{0};

}  // namespace

std::size_t MemoryChannel::abandoned() { return abandoned_servers().count(); }

std::uint64_t MemoryChannel::servers_cpu_ns() { return all_servers_cpu_ns; }

MemoryChannel::~MemoryChannel() {
  const bool still = sent_ != answered_ && !is_readable(socket_.get(), 0);
  if (still) abandoned_servers().add(std::move(socket_));
}

std::chrono::nanoseconds MemoryChannel::silent_for() const {
  const std::uint64_t since = waiting_since_ns_;
  // A server whose answer was not read yet is not silent.
  const bool silent = since != 0 && (dead_ || !is_readable(socket_.get(), 0));
  return std::chrono::nanoseconds(silent ? monotonic_ns() - since : 0);
}

MemoryChannel::Outcome MemoryChannel::call(MemoryRequest request, std::span<const std::byte> in,
                                           std::span<std::byte> out, MemoryAnswer& answer,
                                           std::chrono::nanoseconds patience) {
  // Another thread with more patience may hold the lock.
  if (!mutex_.try_lock_for(patience)) return Outcome::kLate;
  const MutexLock lock(mutex_, std::adopt_lock);
  const auto patience_ns = static_cast<std::uint64_t>(patience.count());
  const Outcome earlier = await(answer, {}, patience_ns);
  if (earlier != Outcome::kAnswered) return earlier;
  request.number = ++sent_;
  waiting_since_ns_ = monotonic_ns();
  dead_ = !send(request, in);
  if (dead_) (void)receive(answer, {});  // receives the last answer, if any
  return await(answer, out, patience_ns);
}

// Waits until no request is unanswered.
MemoryChannel::Outcome MemoryChannel::await(MemoryAnswer& answer, std::span<std::byte> out,
                                            std::uint64_t patience_ns) {
  while (sent_ != answered_) {
    if (dead_) return Outcome::kNoServer;
    if (!wait_readable(patience_ns)) return Outcome::kLate;
    dead_ = !receive(answer, out);
  }
  waiting_since_ns_ = 0;
  return Outcome::kAnswered;
}

bool MemoryChannel::send(const MemoryRequest& request, std::span<const std::byte> in) {
  iovec parts[] = {{const_cast<MemoryRequest*>(&request), sizeof request},
                   {const_cast<std::byte*>(in.data()), in.size()}};
  const msghdr message{.msg_iov = parts, .msg_iovlen = 2};
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0;
}

// Waits until the socket has data, within the caller's patience and the remaining total.
bool MemoryChannel::wait_readable(std::uint64_t patience_ns) {
  if (is_readable(socket_.get(), 0)) return true;
  const std::uint64_t began = monotonic_ns();
  const std::uint64_t most = std::min(patience_ns, budget_.left_ns(began));
  const auto is_there = [&](std::chrono::milliseconds turn) {
    return is_readable(socket_.get(), static_cast<int>(turn.count()));
  };
  const bool readable = wait_in_turns(std::chrono::milliseconds(most / 1'000'000), is_there);
  if (!readable) spent_ns_ += budget_.spend(monotonic_ns() - began);
  return readable;
}

// Receives an answer, and its bytes if it belongs to the last request. Charges the time that the
// file system took to the budget, but not the time that the server waited for a processor.
bool MemoryChannel::receive(MemoryAnswer& answer, std::span<std::byte> out) {
  iovec parts[] = {{&answer, sizeof answer}, {out.data(), out.size()}};
  const ssize_t got = ::readv(socket_.get(), parts, 2);
  if (got < static_cast<ssize_t>(sizeof answer)) return false;
  if (answer.number == 0) {
    why_no_server_ = answer.error;
    return false;
  }
  budget_.give_back(std::exchange(spent_ns_, 0));
  (void)budget_.spend(answer.blocked_ns);
  all_servers_cpu_ns += answer.cpu_ns - std::exchange(server_cpu_ns_, answer.cpu_ns);
  answered_ = answer.number;
  return true;
}

}  // namespace memprofd
