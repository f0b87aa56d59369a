// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/user_slots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace memprofd {

// Maximum number of places for a user, given those that others hold.
std::size_t UserSlots::most_for(const State& state, std::size_t of_others) {
  const std::size_t for_users = state.all - std::max<std::size_t>(state.all / 8, 1);
  if (of_others >= for_users) return 0;
  const std::size_t share = std::max<std::size_t>(3 * (for_users - of_others) / 4, 1);
  return std::min(share, state.most_of_user);
}

absl::StatusOr<UserSlots::Slot> UserSlots::take(const std::string& user) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  if (state.taken >= state.all) {
    return absl::ResourceExhaustedError(
        absl::StrCat(state.taken, " ", state.what, ", and that is the limit: ask again later"));
  }
  if (!user.empty()) {
    const auto found = state.of.find(user);
    const std::size_t own = found == state.of.end() ? 0 : found->second;
    if (own >= most_for(state, state.taken - own)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(state.taken, " ", state.what, ", ", own, " of them of ", user,
                       ", and that is the limit for one user: ask again later"));
    }
  }
  ++state.of[user];
  ++state.taken;
  return Slot(
      std::shared_ptr<void>(nullptr, [state = state_, user](void*) { give_back(*state, user); }));
}

void UserSlots::give_back(State& state, const std::string& user) {
  const MutexLock lock(state.mutex);
  --state.taken;
  const auto own = state.of.find(user);
  if (--own->second == 0) state.of.erase(own);
}

std::size_t UserSlots::taken() const {
  const MutexLock lock(state_->mutex);
  return state_->taken;
}

}  // namespace memprofd
