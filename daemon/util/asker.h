// SPDX-License-Identifier: Apache-2.0
// For whom a thread does what it does. Limits of users (user_places.h) are for him, in whichever
// stage they are; a thread that goes on for another says so itself.
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
