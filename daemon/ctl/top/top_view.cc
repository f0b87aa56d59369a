// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_view.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/ctl/top/top_asker.h"
#include "daemon/ctl/top/top_model.h"
#include "daemon/ctl/top/top_render.h"
#include "daemon/ctl/top/top_screen.h"
#include "daemon/ctl/top/top_terminal.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

class TopLoop {
 public:
  TopLoop(const Endpoint& endpoint, const TopOptions& options)
      : options_(options), model_(options.view_state), asker_(ask_daemon(endpoint)) {}

  absl::Status run() {
    // Runs before the screen is taken over, so that an error is seen on the terminal.
    if (!wait_for_first()) return absl::OkStatus();
    RETURN_IF_ERROR(model_.problem());
    charset_ = terminal_charset();
    ASSIGN_OR_RETURN(screen_, TopScreen::open());
    run_screen();
    screen_.reset();
    return model_.problem();
  }

 private:
  // Returns false when it is time to end.
  bool wait_for_first() {
    bool running = true;
    while (running && model_.answer().number == 0 && model_.problem().ok()) {
      ask();
      running = signals_.wait(asker_.fd(), false, options_.interval_seconds);
      take();
    }
    return running;
  }

  void run_screen() {
    while (!model_.quit() && !(options_.iterations > 0 && frames_ >= options_.iterations)) {
      ask();
      draw();
      if (!signals_.wait(asker_.fd(), true, wait_seconds())) return;
      int key = screen_->read_key();
      for (; key != kKeyNone; key = screen_->read_key()) model_.press(key);
      take();
    }
    draw();
  }

  // Asks at once if the question has changed, else when the next one is due.
  void ask() {
    const bool due = model_.moves() && seconds_since(asked_) >= options_.interval_seconds;
    if (asker_.busy() || !(model_.wants_answer() || due)) return;
    asker_.ask(model_.view_state(), model_.number());
    asked_ = steady_clock::now();
  }

  void take() {
    if (std::optional<TopAnswer> answer = asker_.take()) {
      frames_ += answer->status.ok() && answer->view_state.view != TopView::kTargets;
      model_.take(*std::move(answer));
    } else if (asker_.busy()) {
      model_.set_waiting(seconds_since(asked_));
    }
  }

  // Time until the next work that neither a key nor an answer triggers.
  double wait_seconds() const {
    const double left = options_.interval_seconds - seconds_since(asked_);
    return std::clamp(left, asker_.busy() ? 0.25 : 0.0, 1.0);
  }

  void draw() {
    const ScreenSize size = screen_->size();
    Picture picture = draw_top(model_, size, charset_);
    const std::size_t first = model_.first();
    model_.set_page(picture.list_rows);
    if (model_.first() != first) picture = draw_top(model_, size, charset_);
    screen_->draw(picture);
  }

  const TopOptions& options_;
  TopSignals signals_;  // before any thread
  TopModel model_;
  TopAsker asker_;
  steady_clock::time_point asked_{};
  std::uint64_t frames_ = 0;
  Charset charset_ = Charset::kUtf8;
  std::unique_ptr<TopScreen> screen_;
};

}  // namespace

absl::Status run_screen_top(const Endpoint& endpoint, const TopOptions& options) {
  return TopLoop(endpoint, options).run();
}

}  // namespace memprofd::ctl
