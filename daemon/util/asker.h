// SPDX-License-Identifier: Apache-2.0
// The user for whom a thread works. Limits per user (user_slots.h) apply to that user in every
// stage; a thread that works for another user sets it.
#pragma once

#include <string>
#include <utility>

namespace memprofd {

class Asker {
 public:
  // While it exists, on this thread. user: empty: root, or memprofd itself.
  explicit Asker(std::string user) : before_(std::exchange(current_user(), std::move(user))) {}
  ~Asker() { current_user() = std::move(before_); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  static const std::string& current() { return current_user(); }

 private:
  static std::string& current_user() {
    thread_local std::string user;
    return user;
  }

  std::string before_;
};

}  // namespace memprofd
