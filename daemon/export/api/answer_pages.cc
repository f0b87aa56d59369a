// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/answer_pages.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace memprofd {
namespace {

constexpr char kAgain[] = "; ask again without a token";
// A row in a message has a tag and a length besides.
constexpr std::size_t kRowOverhead = 8;
// Memory of a kept row besides its bytes.
constexpr std::size_t kKeptOverhead = sizeof(std::string) + 16;

// A random number, so that tokens of an earlier memprofd are not valid here.
std::uint64_t new_id() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

struct Token {
  std::uint64_t id = 0;
  std::size_t row = 0;
};

std::string text_of(const Token& token) {
  return absl::StrCat(absl::Hex(token.id, absl::kZeroPad16), "-", token.row);
}

absl::StatusOr<Token> parse_token(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '-');
  Token token;
  if (parts.size() == 2 && absl::SimpleHexAtoi(parts[0], &token.id) &&
      absl::SimpleAtoi(parts[1], &token.row)) {
    return token;
  }
  return absl::InvalidArgumentError(absl::StrCat("page_token is not from this memprofd", kAgain));
}

AnswerPage cut(std::shared_ptr<const WholeAnswer> answer, const Token& token,
               std::size_t max_rows) {
  AnswerPage page{.answer = std::move(answer), .begin = token.row, .end = token.row};
  const std::vector<std::string>& rows = page.answer->rows;
  const std::size_t end = std::min(rows.size(), page.begin + max_rows);
  std::size_t bytes = page.answer->head.size();
  while (page.end < end) {
    bytes += rows[page.end].size() + kRowOverhead;
    if (bytes > PageLimits::kMaxBytes && page.end > page.begin) break;
    ++page.end;
  }
  if (page.end < rows.size()) page.next_token = text_of({token.id, page.end});
  return page;
}

}  // namespace

std::size_t WholeAnswer::bytes() const {
  std::size_t bytes = question.size() + head.size();
  for (const std::string& row : rows) bytes += row.size() + kKeptOverhead;
  return bytes;
}

absl::StatusOr<std::uint32_t> rows_of_page(std::uint32_t page_size) {
  if (page_size <= PageLimits::kMaxRows) {
    return page_size == 0 ? PageLimits::kStandardRows : page_size;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "bad page_size ", page_size, ": a page has at most ", PageLimits::kMaxRows, " rows"));
}

absl::StatusOr<AnswerPage> AnswerPages::first_page(WholeAnswer answer, std::size_t max_rows) {
  const std::size_t bytes = answer.bytes();
  const std::uint64_t id = new_id();
  AnswerPage page = cut(std::make_shared<const WholeAnswer>(std::move(answer)), {id, 0}, max_rows);
  if (page.next_token.empty()) return page;
  if (bytes > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the answer has ", bytes >> 20, " MiB, and ", kMaxBytes >> 20,
                     " MiB are kept between pages: ask for fewer rows by limit or filter, or "
                     "without callstacks"));
  }
  const MutexLock lock(mutex_);
  forget_what_is_old();
  while (bytes_ + bytes > kMaxBytes) forget_first();
  bytes_ += bytes;
  kept_.push_back({id, now_() + kMaxAge, page.answer});
  return page;
}

absl::StatusOr<AnswerPage> AnswerPages::next_page(const std::string& token,
                                                  const std::string& question,
                                                  std::size_t max_rows) {
  ASSIGN_OR_RETURN(const Token place, parse_token(token));
  std::shared_ptr<const WholeAnswer> answer;
  {
    const MutexLock lock(mutex_);
    forget_what_is_old();
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const StoredAnswer& kept) { return kept.id == place.id; });
    if (found != kept_.end()) answer = found->answer;
  }
  if (answer == nullptr) {
    return absl::AbortedError(absl::StrCat("the answer of page_token is no longer kept", kAgain));
  }
  if (answer->question != question || place.row > answer->rows.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_token belongs to another request", kAgain));
  }
  return cut(std::move(answer), place, max_rows);
}

void AnswerPages::forget_first() {
  bytes_ -= kept_.front().answer->bytes();
  kept_.pop_front();
}

void AnswerPages::forget_what_is_old() {
  const auto now = now_();
  while (!kept_.empty() && kept_.front().until <= now) forget_first();
}

}  // namespace memprofd
