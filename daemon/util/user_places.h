// SPDX-License-Identifier: Apache-2.0
// Places that requests take for as long as they wait, or cost something that there is little of.
// An eighth of them, one at least, is for root alone. Of the others each user may have three
// quarters of what all others have left, so that there are some for whoever comes next.
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
class UserPlaces {
 public:
  // what: as a message has it: "streams". most_of_user: where a user may have less than his share.
  UserPlaces(std::size_t all, std::string_view what,
             std::size_t most_of_user = std::numeric_limits<std::size_t>::max())
      : state_(std::make_shared<State>(all, what, most_of_user)) {}

  // Given back when it is destroyed, which may be after the places are.
  class Place {
   private:
    friend class UserPlaces;
    explicit Place(std::shared_ptr<void> taken) : taken_(std::move(taken)) {}
    std::shared_ptr<void> taken_;
  };

  // kResourceExhausted when all are taken, or all that the user may have. user: empty: root, or
  // memprofd itself, who may have all.
  absl::StatusOr<Place> take(const std::string& user);
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
    std::map<std::string, std::size_t> of ABSL_GUARDED_BY(mutex){};  // users who have some
  };

  static std::size_t most_for(const State& state, std::size_t of_others);
  static void give_back(State& state, const std::string& user);

  const std::shared_ptr<State> state_;
};

}  // namespace memprofd
