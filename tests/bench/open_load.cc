// SPDX-License-Identifier: Apache-2.0
// Sends requests to a server on this machine at fixed times, whether or not it has answered the
// earlier ones:
//
//   open_load PORT CONNECTIONS FILE     FILE contains the bytes of one HTTP/1.1 request
//
// Each line on standard input is a load. Once it is complete, the program prints a line of JSON:
//
//   open RATE SECONDS    Requests are due at equal intervals, RATE per second. Each one is sent on
//                        an idle connection; if there is none, due requests wait for one.
//                        Latencies start when a request was due, so that they include the time
//                        for which a stalled server made it wait.
//   closed SECONDS       Each connection sends the next request as soon as it has an answer, which
//                        measures the server's capacity. Latencies start when a request was sent.
//
// JSON: "requests" is the number of due requests, "failed" how many of them had no successful
// answer, "begun_ns" when the first was due (CLOCK_MONOTONIC), "seconds" the time until the last
// answer, "cpu_seconds" the CPU time of this program, "late_ns" its largest own delay of a request,
// "latencies_ns" the latencies of answered requests, in the order in which they were due.
// Connections stay open between loads.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <vector>

#include "daemon/util/clock.h"
#include "daemon/util/fd.h"
#include "daemon/util/json_text.h"
#include "daemon/util/status_macros.h"
#include "tests/bench/http_answer.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kPatienceNs = 30 * kSecondNs;  // for answers after the last request
constexpr double kMaxRequests = 1e7;

// The times at which requests are due.
class Schedule {
 public:
  static Schedule open(double rate, double seconds) {
    return Schedule(static_cast<std::uint64_t>(1e9 / rate), rate * seconds);
  }
  static Schedule closed(double seconds) { return Schedule(0, seconds); }

  std::uint64_t begin_ns() const { return begin_ns_; }
  std::uint64_t period_ns() const { return period_ns_; }
  std::uint64_t due_ns(std::size_t i) const { return begin_ns_ + i * period_ns_; }
  std::uint64_t end_ns() const { return period_ns_ == 0 ? begin_ns_ + closed_ns_ : due_ns(count_); }
  std::size_t taken() const { return taken_; }

  // Takes the next request that is already due, and returns when it was due.
  std::optional<std::uint64_t> take(std::uint64_t now) {
    if (all_taken(now)) return std::nullopt;
    const std::uint64_t due = period_ns_ == 0 ? now : due_ns(taken_);
    if (due > now) return std::nullopt;
    ++taken_;
    return due;
  }
  bool all_taken(std::uint64_t now) const {
    return period_ns_ == 0 ? now >= end_ns() : taken_ == count_;
  }
  // Number of due requests, including those that were never taken.
  std::size_t wanted() const { return period_ns_ == 0 ? taken_ : count_; }

 private:
  // amount: requests of an open load, seconds of a closed one (period 0).
  Schedule(std::uint64_t period_ns, double amount) : period_ns_(period_ns) {
    if (period_ns == 0) closed_ns_ = static_cast<std::uint64_t>(amount * 1e9);
    if (period_ns != 0) count_ = static_cast<std::size_t>(std::llround(amount));
  }

  std::uint64_t begin_ns_ = monotonic_ns() + kSecondNs / 1000;
  std::uint64_t period_ns_;
  std::uint64_t closed_ns_ = 0;
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

struct Connection {
  UniqueFd fd;
  bool busy = false;
  std::size_t request = 0;  // index of the taken request whose answer it waits for
  std::uint64_t due_ns = 0;
  std::string answer;  // the part received so far
};

// Results of one load.
struct Found {
  std::vector<std::uint64_t> latencies_ns;  // by request; 0: none
  std::size_t answered = 0;
  std::uint64_t late_ns = 0;
  std::uint64_t last_ns = 0;
};

class Load {
 public:
  Load(std::uint16_t port, std::size_t connections, std::string request)
      : port_(port), request_(std::move(request)), connections_(connections) {}

  absl::Status connect_all() {
    watch(timer_.get(), connections_.size());
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      RETURN_IF_ERROR(connect(i));
      free_.push_back(i);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> run(Schedule schedule) {
    const std::uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    Found found;
    arm(schedule.begin_ns(), schedule.period_ns());
    ticks_ = 0;
    for (std::uint64_t now = monotonic_ns(); !finished(schedule, now); now = monotonic_ns()) {
      RETURN_IF_ERROR(send_due(schedule, found));
      RETURN_IF_ERROR(wait(schedule, found));
    }
    arm(0, 0);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i].busy) RETURN_IF_ERROR(give_up(i));
    }
    return json(schedule, found, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }

 private:
  void watch(int fd, std::size_t number) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
  }

  absl::Status connect(std::size_t i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("no connection to port ", port_));
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_[i] = Connection{.fd = std::move(fd), .answer = {}};
    watch(connections_[i].fd.get(), i);
    return absl::OkStatus();
  }

  // Counts the connection's request as failed, and reconnects for another request.
  absl::Status give_up(std::size_t i) {
    const bool was_busy = connections_[i].busy;
    RETURN_IF_ERROR(connect(i));
    if (was_busy) free_.push_back(i);
    return absl::OkStatus();
  }

  void arm(std::uint64_t first_ns, std::uint64_t period_ns) const {
    const auto spec = [](std::uint64_t ns) {
      return timespec{static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
    };
    const itimerspec times{.it_interval = spec(period_ns), .it_value = spec(first_ns)};
    if (timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &times, nullptr) != 0) std::abort();
  }

  bool finished(const Schedule& schedule, std::uint64_t now) const {
    const bool none_waits = free_.size() == connections_.size();
    return (schedule.all_taken(now) && none_waits) || now > schedule.end_ns() + kPatienceNs;
  }

  // Uses the connections in turn, so that all threads of a server with one per connection work.
  absl::Status send_due(Schedule& schedule, Found& found) {
    while (!free_.empty()) {
      const auto due = schedule.take(monotonic_ns());
      if (!due) break;
      const std::size_t i = free_.front();
      free_.pop_front();
      Connection& connection = connections_[i];
      connection.busy = true;
      connection.request = schedule.taken() - 1;
      connection.due_ns = *due;
      found.latencies_ns.push_back(0);
      const ssize_t sent =
          ::send(connection.fd.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
      if (sent != static_cast<ssize_t>(request_.size())) RETURN_IF_ERROR(give_up(i));
    }
    return absl::OkStatus();
  }

  absl::Status wait(const Schedule& schedule, Found& found) {
    std::array<epoll_event, 64> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 10);
    for (int at = 0; at < count; ++at) {
      const std::uint64_t number = events[static_cast<std::size_t>(at)].data.u64;
      if (number == connections_.size()) {
        tick(schedule, found);
      } else {
        RETURN_IF_ERROR(receive(number, found));
      }
    }
    return absl::OkStatus();
  }

  void tick(const Schedule& schedule, Found& found) {
    std::uint64_t ticks = 0;
    if (::read(timer_.get(), &ticks, sizeof ticks) != sizeof ticks) return;
    if (ticks_ < schedule.wanted()) {
      found.late_ns = std::max(found.late_ns, monotonic_ns() - schedule.due_ns(ticks_));
    }
    ticks_ += ticks;
  }

  absl::Status receive(std::size_t i, Found& found) {
    Connection& connection = connections_[i];
    std::array<char, 65536> bytes;
    const ssize_t size = ::recv(connection.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
    if (size <= 0 || !connection.busy) return give_up(i);
    connection.answer.append(bytes.data(), static_cast<std::size_t>(size));
    const absl::StatusOr<std::size_t> length = length_of_answer(connection.answer);
    if (!length.ok() || (*length != 0 && *length != connection.answer.size())) return give_up(i);
    if (*length == 0) return absl::OkStatus();
    found.last_ns = monotonic_ns();
    found.latencies_ns[connection.request] = found.last_ns - connection.due_ns;
    ++found.answered;
    connection.busy = false;
    connection.answer.clear();
    free_.push_back(i);
    return absl::OkStatus();
  }

  static std::string json(const Schedule& schedule, Found& found, std::uint64_t cpu_ns) {
    const std::uint64_t end = std::max(found.last_ns, schedule.begin_ns());
    std::string text = fmt::format(
        R"({{"requests":{},"failed":{},"begun_ns":{},"seconds":{:.9f},"cpu_seconds":{:.9f},)",
        schedule.wanted(), schedule.wanted() - found.answered, schedule.begin_ns(),
        static_cast<double>(end - schedule.begin_ns()) * 1e-9, static_cast<double>(cpu_ns) * 1e-9);
    text += fmt::format(R"("late_ns":{},"latencies_ns":)", found.late_ns);
    std::erase(found.latencies_ns, 0);
    append_json_numbers(found.latencies_ns, text);
    return text + "}";
  }

  const std::uint16_t port_;
  const std::string request_;
  std::vector<Connection> connections_;
  std::deque<std::size_t> free_;  // idle connections, the one that was answered first in front
  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  UniqueFd timer_{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)};
  std::uint64_t ticks_ = 0;  // ticks of the timer in this load
};

// Parses a line of input; nullopt if it is not a load.
std::optional<Schedule> schedule_of(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  double rate = 0;
  double seconds = 0;
  words >> kind;
  if (kind == "open") words >> rate;
  words >> seconds;
  const bool right = words && seconds > 0 && seconds < 1e6;
  if (right && kind == "closed") return Schedule::closed(seconds);
  const bool right_rate = rate > 0 && rate * seconds >= 1 && rate * seconds <= kMaxRequests;
  if (right && kind == "open" && right_rate) return Schedule::open(rate, seconds);
  return std::nullopt;
}

absl::Status serve(Load& load) {
  RETURN_IF_ERROR(load.connect_all());
  for (std::string line; std::getline(std::cin, line);) {
    const std::optional<Schedule> schedule = schedule_of(line);
    if (!schedule) return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is no load"));
    ASSIGN_OR_RETURN(const std::string answer, load.run(*schedule));
    fmt::print("{}\n", answer);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  using memprofd::parse_number;
  const auto port = argc == 4 ? parse_number<std::uint16_t>(argv[1]) : std::nullopt;
  const auto connections = argc == 4 ? parse_number<std::uint16_t>(argv[2]) : std::nullopt;
  if (!port || !connections || *connections == 0) {
    fmt::print(stderr, "usage: open_load PORT CONNECTIONS FILE\n");
    return 2;
  }
  std::ifstream file(argv[3], std::ios::binary);
  memprofd::Load load(*port, *connections, {std::istreambuf_iterator<char>(file), {}});
  const absl::Status status = memprofd::serve(load);
  if (!status.ok()) fmt::print(stderr, "open_load: {}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}
