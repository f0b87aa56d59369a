// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "daemon/util/log.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kTimeoutCheck{250};
constexpr std::chrono::seconds kBetweenWarnings{60};

}  // namespace

HttpConnections::HttpConnections(HttpConnectionLimits limits, std::shared_ptr<ServerStats> stats)
    : limits_(limits), stats_(std::move(stats)), thread_([this] { loop(); }) {}

HttpConnections::~HttpConnections() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HttpConnections::began(const MHD_Connection* connection, int fd) {
  const MutexLock lock(mutex_);
  connections_[connection] = {fd, State::kHead, Clock::now()};
  if (connections_.size() - closing_ > limits_.connections * 3 / 4) make_room(connection);
}

void HttpConnections::ended(const MHD_Connection* connection) {
  const MutexLock lock(mutex_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  if (found->second.cut_off) --closing_;
  connections_.erase(found);
}

void HttpConnections::enter(const MHD_Connection* connection, State state, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.state = state;
  found->second.since = Clock::now();
  found->second.bytes = bytes;
  if (bytes > 0) shed_unsent(connection);
}

void HttpConnections::sending(const MHD_Connection* connection, std::size_t bytes) {
  enter(connection, State::kSending, bytes);
}

void HttpConnections::shed_unsent(const MHD_Connection* but) {
  std::size_t all = 0;
  for (const auto& [key, connection] : connections_)
    all += connection.cut_off ? 0 : connection.bytes;
  while (all > limits_.unsent_bytes) {
    Connection* longest = longest_in(State::kSending, but);
    if (longest == nullptr) return;
    all -= longest->bytes;
    cut_off(*longest);
  }
}

HttpConnections::Connection* HttpConnections::longest_in(State state, const MHD_Connection* but) {
  Connection* longest = nullptr;
  for (auto& [key, connection] : connections_) {
    if (key == but || connection.cut_off || connection.state != state) continue;
    if (longest == nullptr || connection.since < longest->since) longest = &connection;
  }
  return longest;
}

void HttpConnections::make_room(const MHD_Connection* for_whom) {
  Connection* connection = longest_in(State::kHead, for_whom);
  if (connection == nullptr) connection = longest_in(State::kSending, for_whom);
  if (connection != nullptr) cut_off(*connection);
}

// Its thread in libmicrohttpd detects the end, and closes it.
void HttpConnections::cut_off(Connection& connection) {
  connection.cut_off = true;
  ++closing_;
  ::shutdown(connection.fd, SHUT_RDWR);
  const std::uint64_t all = ++stats_->http_cut_off;
  const auto now = Clock::now();
  if (now - warned_at_ < kBetweenWarnings) return;
  warned_at_ = now;
  log_warning("HTTP: closed connections that were too slow, {} so far; {} of {} are open", all,
              connections_.size() - closing_, limits_.connections);
}

void HttpConnections::loop() {
  const MutexLock lock(mutex_);
  while (!stop_) {
    const auto now = Clock::now();
    for (auto& [key, connection] : connections_) {
      if (connection.cut_off || connection.state == State::kAsked) continue;
      const auto patience =
          connection.state == State::kHead ? limits_.head_patience : limits_.sending_patience;
      if (now - connection.since > patience) cut_off(connection);
    }
    changed_.wait_until(mutex_, now + std::min(kTimeoutCheck, limits_.head_patience));
  }
}

}  // namespace memprofd
