// SPDX-License-Identifier: Apache-2.0
// The Unix socket of the gRPC server. Connections are accepted here and handed on, to identify the
// peer, and to be able to disconnect a client that does not read: gRPC itself waits for ever to
// send data that it has begun to write, even when it shuts down.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

// The process at the other end of a Unix socket, at the time of its connect().
struct UnixPeer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// peer as grpc::ServerContext::peer() has it, while its call runs; none for TCP.
std::optional<UnixPeer> unix_peer(std::string_view peer);

struct UnixListenerLimits {
  std::size_t connections = 512;
  std::size_t connections_a_user = 64;  // that is not root
  // A connection ends if data is not accepted for this time.
  std::chrono::milliseconds patience{30'000};
};

class UnixListener {
 public:
  // Owns the descriptor of a connection from then on.
  using Take = std::function<void(UniqueFd)>;

  // Listens with mode 0660; creates the last folder of path (mode 0755), and replaces a socket on
  // which no process listens any more. kUnavailable if a process does, kInvalidArgument if the path
  // cannot be that of a socket.
  static absl::StatusOr<std::unique_ptr<UnixListener>> listen(const std::string& path,
                                                              UnixListenerLimits limits,
                                                              std::shared_ptr<ServerStats> stats);
  // Gives connections to take, on a thread of its own, until stop().
  void serve(Take take);
  // Takes no more connections, ends those that are there when the time has passed, and removes
  // the socket. Returns at once.
  void stop(std::chrono::milliseconds grace);
  // Ends all connections.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Connection {
    UniqueFd fd;  // another descriptor of the socket that gRPC has
    uid_t uid;
    UserSlots::Slot slot;
    int unread_bytes;
    TimePoint read_at;  // when the client was last seen to read, or had nothing to
  };

  UnixListener(std::string path, UniqueFd socket, UnixListenerLimits limits,
               std::shared_ptr<ServerStats> stats);
  void loop();
  // Waits until a connection can be accepted.
  bool wait();
  void accept();
  // Refuses a connection because no place is left; logged now and then.
  void refuse(uid_t uid, const absl::Status& why);
  void close_stalled_connections(TimePoint now);
  void cut_off_all();
  void remove_socket();

  std::string path_;  // of a socket that is ours; empty: removed
  UniqueFd socket_;
  const UniqueFd wake_;
  const UnixListenerLimits limits_;
  const std::shared_ptr<ServerStats> stats_;
  Take take_;
  UserSlots slots_;
  std::map<int, Connection> connections_;  // by descriptor; the thread's, once there is one
  TimePoint refusal_logged_at_;            // likewise
  std::atomic<TimePoint> cut_off_at_ = TimePoint::max();
  Mutex taking_;  // held while a connection is handed on
  bool stopping_ ABSL_GUARDED_BY(taking_) = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace memprofd
