// SPDX-License-Identifier: Apache-2.0
// The screen of `top`: reads keys and draws pictures. Only this class uses ncurses to draw.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/ctl/top/top_render.h"

namespace memprofd::ctl {

// Uses the terminal as a screen; the destructor restores it.
class TopScreen {
 public:
  // kFailedPrecondition: not a terminal that can be drawn on.
  static absl::StatusOr<std::unique_ptr<TopScreen>> open();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  ScreenSize size() const;
  void draw(const Picture& picture);
  // Returns kKeyNone if no key was pressed; does not wait.
  int read_key();

 private:
  TopScreen() = default;
};

}  // namespace memprofd::ctl
