#include "daemon/ctl/top_view.h"

#include <ncurses.h>
#include <poll.h>

#include <chrono>
#include <clocale>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render_top.h"
#include "daemon/ctl/words.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Asks the daemon and remembers the last answer, for rates.
class Source {
 public:
  Source(Client& client, const TopOptions& options) : client_(client) {
    request_.set_pid(options.pid);
    request_.set_order(options.order);
    *request_.mutable_filter() = options.filter;
    request_.set_no_callstacks(true);
  }

  pb::SiteOrder order() const { return request_.order(); }
  void set_order(pb::SiteOrder order) { request_.set_order(order); }
  void set_limit(std::uint32_t limit) { request_.set_limit(limit); }

  absl::Status refresh() {
    absl::StatusOr<pb::ListSitesResponse> answer = client_.list_sites(request_);
    if (!answer.ok()) return answer.status();
    before_ = std::exchange(now_, *std::move(answer));
    return absl::OkStatus();
  }
  TopFrame frame(std::size_t width) const {
    return top_frame(*now_, before_ ? &*before_ : nullptr, request_.order(), width);
  }
  bool target_ended() const {
    const pb::TargetState state = now_->target().state();
    return state != pb::TARGET_STATE_SAMPLING && state != pb::TARGET_STATE_WAITING;
  }

 private:
  Client& client_;
  pb::ListSitesRequest request_;
  std::optional<pb::ListSitesResponse> now_, before_;
};

void print_plain(const TopFrame& frame) {
  for (const std::string& line : frame.header) std::printf("%s\n", line.c_str());
  std::printf("%s\n", frame.title.c_str());
  for (const std::string& line : frame.sites) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

absl::Status run_plain(Source& source, const TopOptions& options) {
  source.set_limit(options.limit);
  for (std::uint64_t i = 1;; ++i) {
    if (absl::Status status = source.refresh(); !status.ok()) return status;
    print_plain(source.frame(0));
    if (i == options.iterations || (options.iterations == 0 && source.target_ended())) break;
    std::printf("\n");
    ::poll(nullptr, 0, static_cast<int>(options.interval_seconds * 1000));
  }
  return absl::OkStatus();
}

// The terminal as a screen; given back when destroyed.
class Screen {
 public:
  Screen() {
    std::setlocale(LC_ALL, "");
    initscr();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
  }
  ~Screen() { endwin(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const TopFrame& frame, pb::SiteOrder order) {
    erase();
    int row = 0;
    for (const std::string& line : frame.header) mvaddstr(row++, 0, line.c_str());
    ++row;
    attron(A_REVERSE);
    mvaddstr(row++, 0, frame.title.c_str());
    attroff(A_REVERSE);
    for (const std::string& line : frame.sites) {
      if (row >= LINES - 1) break;
      mvaddstr(row++, 0, line.c_str());
    }
    const std::string_view word = order_word(order);
    const std::string help = absl::StrCat(
        "q quit   sort by: l live, a allocated, p promoted, "
        "t lifetime   now: ",
        absl::string_view(word.data(), word.size()));
    mvaddstr(LINES - 1, 0, fit_width(help, COLS).c_str());
    refresh();
  }
};

std::optional<pb::SiteOrder> order_of_key(int key) {
  switch (key) {
    case 'l':
      return pb::SITE_ORDER_LIVE;
    case 'a':
      return pb::SITE_ORDER_ALLOCATED;
    case 'p':
      return pb::SITE_ORDER_PROMOTED;
    case 't':
      return pb::SITE_ORDER_LIFETIME;
    default:
      return std::nullopt;
  }
}

// Reads keys until the time has come for the next frame. False: quit.
bool handle_keys(Source& source, steady_clock::time_point until) {
  for (auto now = steady_clock::now(); now < until; now = steady_clock::now()) {
    timeout(static_cast<int>(std::chrono::ceil<milliseconds>(until - now).count()));
    const int key = getch();
    if (key == 'q' || key == 'Q') return false;
    if (key == KEY_RESIZE) return true;
    if (const auto order = order_of_key(key)) {
      source.set_order(*order);
      return true;
    }
  }
  return true;
}

absl::Status run_screen(Source& source, const TopOptions& options) {
  const auto interval = std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(options.interval_seconds));
  // Before the screen is taken, so that an error is seen on the terminal.
  if (absl::Status status = source.refresh(); !status.ok()) return status;
  Screen screen;
  for (std::uint64_t i = 1;; ++i) {
    screen.draw(source.frame(COLS), source.order());
    if (i == options.iterations) break;
    if (!handle_keys(source, steady_clock::now() + interval)) break;
    source.set_limit(LINES);
    if (absl::Status status = source.refresh(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status run_top(Client& client, const TopOptions& options) {
  Source source(client, options);
  return options.plain ? run_plain(source, options) : run_screen(source, options);
}

}  // namespace memprofd::ctl
