// SPDX-License-Identifier: Apache-2.0
// Keeps slow clients from blocking others: libmicrohttpd's own timeout restarts with each byte.
//
//   kHead ---- whole request is there ----> kAsked ---- whole body is made ----> kSending
//     ^                                        '---------- sent ------.             |
//     '------------------------------------------------------------- sent ---------'
//
// kHead and kSending have a time limit. When few connections are left, the one that has been
// longest in kHead ends at once; if there is none, the one longest in kSending, but never the new
// one. Connections that are ending do not count, because the time until they are closed depends on
// the load of the machine.
//
// When unread answers exceed their total limit in bytes, those longest in kSending end; a single
// answer may have any size.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "daemon/export/api/server_stats.h"
#include "daemon/util/threads/mutex.h"

struct MHD_Connection;

namespace memprofd {

struct HttpConnectionLimits {
  std::size_t connections = 128;
  std::chrono::milliseconds head_patience{30'000};
  std::chrono::milliseconds sending_patience{120'000};
  std::size_t unsent_bytes = 64 << 20;
};

// Thread-safe.
class HttpConnections {
 public:
  HttpConnections(HttpConnectionLimits limits, std::shared_ptr<ServerStats> stats);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // fd is open until ended().
  void began(const MHD_Connection* connection, int fd);
  void asked(const MHD_Connection* connection) { enter(connection, State::kAsked); }
  // bytes: of the whole answer, until the next call for the connection.
  void sending(const MHD_Connection* connection, std::size_t bytes);
  void answered(const MHD_Connection* connection) { enter(connection, State::kHead); }
  void ended(const MHD_Connection* connection);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kHead, kAsked, kSending };
  struct Connection {
    int fd = -1;
    State state = State::kHead;
    Clock::time_point since;
    bool cut_off = false;
    std::size_t bytes = 0;  // of the answer being sent
  };

  void enter(const MHD_Connection* connection, State state, std::size_t bytes = 0);
  void loop();
  void make_room(const MHD_Connection* for_whom) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void shed_unsent(const MHD_Connection* but) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void cut_off(Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Connection* longest_in(State state, const MHD_Connection* but)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HttpConnectionLimits limits_;
  const std::shared_ptr<ServerStats> stats_;
  Mutex mutex_;
  Condition changed_;
  std::map<const MHD_Connection*, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::size_t closing_ ABSL_GUARDED_BY(mutex_) = 0;  // of them cut off
  Clock::time_point warned_at_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memprofd
