// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/published_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/utf8.h"
#include "daemon/values/publication.h"
#include "daemon/values/whole_record.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kBetweenAnswers{2};

using Record = memprof_request;

class Asking {
 public:
  Asking(const WritableMemory& memory, std::uint64_t registry, std::uint64_t record,
         const PublishedRequest& request)
      : memory_(memory), registry_(registry), record_(record), request_(request) {}

  absl::StatusOr<RequestAnswer> run(const std::function<bool()>& wanted) {
    RETURN_IF_ERROR(begin());
    for (;;) {
      RETURN_IF_ERROR(memory_.read_value(record_, *now_));
      if (has_answer()) return read_answer();
      const bool is_over = monotonic_ns() - began_ns_ >= nanoseconds(request_.timeout);
      if (is_over || !wanted()) return take_back(is_over);
      std::this_thread::sleep_for(kBetweenAnswers);
    }
  }

 private:
  static std::uint64_t nanoseconds(std::chrono::nanoseconds time) {
    return static_cast<std::uint64_t>(time.count());
  }

  template <typename T>
  absl::Status put(std::size_t offset, const T& value) const {
    return memory_.write_value(record_ + offset, value);
  }

  // Serialises requests that arrive at the same time.
  absl::Status begin() {
    static Mutex mutex;
    const MutexLock lock(mutex);
    RETURN_IF_ERROR(memory_.read_value(record_, *now_));
    began_ns_ = monotonic_ns();
    if (now_->running != 0 || somebody_waits()) {
      return absl::ResourceExhaustedError(
          fmt::format("an earlier request '{}' has no answer yet; ask again later", request_.name));
    }
    return write();
  }

  // No client waits for longer, so an older request was left by a memprofd that was killed.
  bool somebody_waits() const {
    const std::uint64_t asked = now_->asked;
    return asked != 0 && asked != now_->answered && asked <= began_ns_ &&
           began_ns_ - asked <= nanoseconds(kMaxRequestTimeout);
  }

  // The number is the time, so two clients never use the same.
  absl::Status write() const {
    const std::string& argument = request_.argument;
    if (!argument.empty()) {
      RETURN_IF_ERROR(
          memory_.write(record_ + offsetof(Record, argument), std::as_bytes(std::span(argument))));
    }
    RETURN_IF_ERROR(
        put(offsetof(Record, argument_bytes), static_cast<std::uint32_t>(argument.size())));
    RETURN_IF_ERROR(put(offsetof(Record, asked), began_ns_));
    return memory_.write_value(registry_ + offsetof(memprof_values_head, asked_last), began_ns_);
  }

  bool has_answer() const { return is_whole(*now_) && now_->answered == began_ns_; }

  // Reads the answer again: within one piece the processor may read later words first, so the text
  // may be older than the words that announce it.
  absl::StatusOr<RequestAnswer> read_answer() const {
    RETURN_IF_ERROR(memory_.read_value(record_, *now_));
    RequestAnswer answer{.is_cut = now_->text_bytes > MEMPROF_REQUEST_TEXT,
                         .took = std::chrono::nanoseconds(monotonic_ns() - began_ns_)};
    answer.text.assign(now_->text, std::min(now_->text_bytes, MEMPROF_REQUEST_TEXT));
    if (now_->state == MEMPROF_REQUEST_ANSWERED) return answer;
    return absl::FailedPreconditionError(
        fmt::format("the action '{}' raised {}", request_.name, printable(answer.text)));
  }

  // Withdraws an action that has not started yet.
  absl::StatusOr<RequestAnswer> take_back(bool is_over) {
    RETURN_IF_ERROR(put(offsetof(Record, asked), std::uint64_t{0}));
    RETURN_IF_ERROR(memory_.read_value(record_, *now_));
    if (has_answer()) return read_answer();
    if (!is_over) return absl::CancelledError("no one waits for the answer any longer");
    const auto seconds = std::chrono::duration<double>(request_.timeout).count();
    if (now_->running == began_ns_) {
      return absl::DeadlineExceededError(
          fmt::format("the program has started '{}' and did not finish within {:g} s: it "
                      "continues, and its reply is lost",
                      request_.name, seconds));
    }
    return absl::DeadlineExceededError(fmt::format(
        "the program did not start '{}' within {:g} s, and the request is withdrawn: actions run "
        "after a minor collection, or where the program calls Memprof_values.poll",
        request_.name, seconds));
  }

  const WritableMemory& memory_;
  const std::uint64_t registry_;
  const std::uint64_t record_;
  const PublishedRequest& request_;
  std::uint64_t began_ns_ = 0;  // CLOCK_MONOTONIC
  std::unique_ptr<Record> now_ = std::make_unique<Record>();
};

absl::Status check(const memprof_values_head& head, const PublishedRequest& request) {
  if (!is_known(head) || head.request_bytes != sizeof(Record)) {
    return absl::FailedPreconditionError(
        "the program accepts no requests: it was built with another memprof-agent.values; build it "
        "with that of this memprofd");
  }
  if (request.argument.size() <= MEMPROF_REQUEST_ARGUMENT) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("bad argument of {} bytes: it has at most {}",
                                                request.argument.size(), MEMPROF_REQUEST_ARGUMENT));
}

}  // namespace

absl::StatusOr<RequestAnswer> ask_report(const WritableMemory& memory, std::uint64_t address,
                                         const PublishedRequest& request,
                                         const std::function<bool()>& wanted) {
  memprof_values_head head{};
  RETURN_IF_ERROR(memory.read_value(address, head));
  RETURN_IF_ERROR(check(head, request));
  ASSIGN_OR_RETURN(const Publication report, read_publication(memory, address, tick_now()));
  const auto one =
      std::find_if(report.all.begin(), report.all.end(), [&](const PublishedValue& it) {
        return it.kind == PublishedValue::Kind::kRequest && it.name == request.name;
      });
  if (one == report.all.end()) {
    return absl::NotFoundError(fmt::format(
        "the program has no action '{}'; `memprofctl values` lists its actions", request.name));
  }
  const std::uint64_t record =
      address + offsetof(memprof_values, requests) + one->cell * sizeof(Record);
  return Asking(memory, address, record, request).run(wanted);
}

}  // namespace memprofd
