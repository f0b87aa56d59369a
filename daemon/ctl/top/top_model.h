// SPDX-License-Identifier: Apache-2.0
// State of `top` and the effects of keys on it; sends no requests and draws nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ctl/top/line_edit.h"
#include "daemon/ctl/top/top_question.h"

namespace memprofd::ctl {

// An overlay over the list, or in place of it.
enum class TopOverlay {
  kNone,
  kHelp,
  kFilter,  // the line to edit
  kFrames,  // of the callstack that was opened
};

class TopModel {
 public:
  // Without a pid the model lists targets, and continues to the only candidate if there is just
  // one.
  explicit TopModel(TopViewState view_state);

  // ---- events
  void press(int key);
  void take(TopAnswer answer);
  // Number of rows that the list has room for.
  void set_page(std::size_t rows);
  // Time for which the daemon has not answered the current question.
  void set_waiting(double seconds) { waiting_seconds_ = seconds; }

  // ---- actions
  bool quit() const { return quit_; }
  const TopViewState& view_state() const { return view_state_; }
  // Changes with the question: an answer with another number belongs to an earlier one.
  std::uint64_t number() const { return number_; }
  // wants_answer(): send a request now. moves(): repeat the request regularly.
  bool wants_answer() const { return answered_ != number_; }
  bool moves() const {
    return !paused() || view_state_.view == TopView::kTargets || !problem_.ok();
  }

  // ---- data to show
  // The last good answer, possibly to an earlier question. number 0: none yet.
  const TopAnswer& answer() const { return answer_; }
  // The reason why there is no newer answer.
  const absl::Status& problem() const { return problem_; }
  double waiting_seconds() const { return waiting_seconds_; }
  bool paused() const { return view_state_.until_ns != 0; }
  // True if the answer belongs to the present view.
  bool current() const { return answer_.number == number_; }
  TopOverlay overlay() const { return overlay_; }
  const LineEdit& edit() const { return edit_; }
  const std::string& message() const { return message_; }  // one line, until the next key
  std::size_t rows() const;
  std::size_t cursor() const { return cursor_; }
  std::size_t first() const { return first_; }  // row at the top of the list
  // The row under the cursor; null if there is none, or if the list shows targets.
  const pb::Site* selected() const;
  const pb::Site& opened() const { return opened_; }            // kFrames
  std::size_t overlay_first() const { return overlay_first_; }  // kHelp, kFrames: line at the top

 private:
  void ask_again();  // the question has changed
  void show_from_start();
  void move_to(std::ptrdiff_t row);
  void press_filter(int key);
  void press_overlay(int key);
  void press_view_key(int key);
  void press_time(int key);
  bool sort_key(int key);
  void move_sort(int direction);
  void next_group();
  void next_window();
  void go_in();
  void go_out();
  void choose_target(int pid);
  void list_targets();
  void pause();
  void step(double seconds);
  double step_seconds() const;
  std::string row_key(std::size_t row) const;
  void follow(const std::string& key);

  TopViewState view_state_;
  std::uint64_t number_ = 1;
  std::uint64_t answered_ = 0;  // number of the last question with an answer, good or not
  TopAnswer answer_;
  absl::Status problem_;
  double waiting_seconds_ = 0;
  bool choose_only_target_;
  bool quit_ = false;

  TopOverlay overlay_ = TopOverlay::kNone;
  std::size_t overlay_first_ = 0;
  LineEdit edit_;
  std::string message_;
  pb::Site opened_;
  std::size_t cursor_ = 0, first_ = 0, page_ = 1;
};

}  // namespace memprofd::ctl
