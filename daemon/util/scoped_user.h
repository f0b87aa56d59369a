// SPDX-License-Identifier: Apache-2.0
// The user on whose behalf a thread works. Limits per user (user_slots.h) apply to this user in
// every stage. A thread that starts to work for another user sets it.
#pragma once

#include <string>
#include <utility>

namespace memprofd {

class ScopedUser {
 public:
  // Sets the user of this thread until destroyed. An empty user means root or memprofd itself.
  explicit ScopedUser(std::string user) : before_(std::exchange(current_user(), std::move(user))) {}
  ~ScopedUser() { current_user() = std::move(before_); }
  ScopedUser(const ScopedUser&) = delete;
  ScopedUser& operator=(const ScopedUser&) = delete;

  static const std::string& current() { return current_user(); }

 private:
  static std::string& current_user() {
    thread_local std::string user;
    return user;
  }

  std::string before_;
};

}  // namespace memprofd
