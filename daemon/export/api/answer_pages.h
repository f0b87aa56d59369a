// SPDX-License-Identifier: Apache-2.0
// Pagination: a client gets the rows of one moment page by page, as many as fit into a message that
// every gRPC client accepts. Between pages the answer is kept here:
//
//     question ─▶ whole answer ─▶ first page, token ··· token, question ─▶ next page, token ··
//
// A token contains the answer and the next row. It can be used repeatedly while the answer is kept.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct PageLimits {
  static constexpr std::uint32_t kStandardRows = 100;
  static constexpr std::uint32_t kMaxRows = 1000;
  // A row that is larger gets a page of its own.
  static constexpr std::size_t kMaxBytes = 2 << 20;
};

// Messages are kept as bytes, which take a quarter of the memory.
struct WholeAnswer {
  std::string question;           // the request without its page
  std::string head;               // everything but the rows
  std::vector<std::string> rows;  // each a message
  std::size_t bytes() const;
};

struct AnswerPage {
  std::shared_ptr<const WholeAnswer> answer;
  std::size_t begin = 0, end = 0;  // of rows
  std::string next_token;          // empty: the last page
};

// Thread-safe.
class AnswerPages {
 public:
  static constexpr std::size_t kMaxBytes = 16 << 20;
  static constexpr std::chrono::seconds kMaxAge{60};
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  explicit AnswerPages(Now now = &std::chrono::steady_clock::now) : now_(std::move(now)) {}

  // The first page of an answer. If there are more pages, the answer is kept, and the oldest other
  // answers make room for it. kResourceExhausted: it alone is too large to keep.
  absl::StatusOr<AnswerPage> first_page(WholeAnswer answer, std::size_t max_rows);
  // kAborted: the answer is not kept, or no longer. kInvalidArgument: the token is malformed, or
  // belongs to another question.
  absl::StatusOr<AnswerPage> next_page(const std::string& token, const std::string& question,
                                       std::size_t max_rows);

 private:
  struct StoredAnswer {
    std::uint64_t id;
    std::chrono::steady_clock::time_point until;
    std::shared_ptr<const WholeAnswer> answer;
  };
  void forget_first() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget_what_is_old() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Now now_;
  Mutex mutex_;
  std::deque<StoredAnswer> kept_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;          // of all
};

// The number of rows per page for a request's page_size. kInvalidArgument above
// PageLimits::kMaxRows.
absl::StatusOr<std::uint32_t> rows_of_page(std::uint32_t page_size);

template <typename Request>
std::string question_of(Request request) {
  request.clear_page_size();
  request.clear_page_token();
  return request.GetTypeName() + "\n" + request.SerializeAsString();
}

// Serializes the answer's rows.
template <typename Response, typename Rows>
WholeAnswer whole_answer(std::string question, Response response, Rows* (Response::*rows)()) {
  WholeAnswer whole{.question = std::move(question), .head = {}, .rows = {}};
  for (const auto& row : *(response.*rows)()) whole.rows.push_back(row.SerializeAsString());
  (response.*rows)()->Clear();
  whole.head = response.SerializeAsString();
  return whole;
}

template <typename Response, typename Rows>
absl::StatusOr<Response> message_of(const AnswerPage& page, Rows* (Response::*rows)()) {
  Response response;
  bool ok = response.ParseFromString(page.answer->head);
  for (std::size_t i = page.begin; i < page.end; ++i) {
    ok = (response.*rows)()->Add()->ParseFromString(page.answer->rows[i]) && ok;
  }
  if (!ok) return absl::InternalError("a kept answer cannot be read");
  response.set_next_page_token(page.next_token);
  return response;
}

// The requested page. answer: computes the whole answer for the first page.
template <typename Request, typename Response, typename Rows, typename Answer>
absl::StatusOr<Response> page_of(AnswerPages& kept, const Request& request,
                                 Rows* (Response::*rows)(), Answer answer) {
  ASSIGN_OR_RETURN(const std::uint32_t max_rows, rows_of_page(request.page_size()));
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(const AnswerPage page,
                     kept.next_page(request.page_token(), question_of(request), max_rows));
    return message_of<Response>(page, rows);
  }
  ASSIGN_OR_RETURN(Response response, answer(request));
  const auto n_rows = static_cast<std::uint32_t>((response.*rows)()->size());
  response.set_total_rows(n_rows);
  if (n_rows <= max_rows && response.ByteSizeLong() <= PageLimits::kMaxBytes) return response;
  ASSIGN_OR_RETURN(
      const AnswerPage page,
      kept.first_page(whole_answer(question_of(request), std::move(response), rows), max_rows));
  return message_of<Response>(page, rows);
}

}  // namespace memprofd
