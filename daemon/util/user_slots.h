// SPDX-License-Identifier: Apache-2.0
// Slots for requests that wait or use a scarce resource. An eighth, at least one, is reserved for
// root. Each user may have three quarters of the others that no one else has taken, so that some
// remain for the next user.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Thread-safe.
class UserSlots {
 public:
  // what: plural noun for messages, "streams". most_of_user: an upper limit below the user's share.
  UserSlots(std::size_t all, std::string_view what,
            std::size_t most_of_user = std::numeric_limits<std::size_t>::max())
      : state_(std::make_shared<State>(all, what, most_of_user)) {}

  // A taken slot. Its destruction returns it, even after the UserSlots object is gone.
  class Slot {
   private:
    friend class UserSlots;
    explicit Slot(std::shared_ptr<void> taken) : taken_(std::move(taken)) {}
    std::shared_ptr<void> taken_;
  };

  // kResourceExhausted if all slots are taken, or all that the user may have. An empty user means
  // root or memprofd itself, which may take all.
  absl::StatusOr<Slot> take(const std::string& user);
  std::size_t taken() const;

 private:
  struct State {
    State(std::size_t all, std::string_view what, std::size_t most_of_user)
        : all(all), what(what), most_of_user(most_of_user) {}

    const std::size_t all;
    const std::string what;
    const std::size_t most_of_user;
    Mutex mutex;
    std::size_t taken ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, std::size_t> of ABSL_GUARDED_BY(mutex){};  // taken slots by user
  };

  static std::size_t most_for(const State& state, std::size_t of_others);
  static void give_back(State& state, const std::string& user);

  const std::shared_ptr<State> state_;
};

}  // namespace memprofd
