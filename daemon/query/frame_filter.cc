// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/frame_filter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"
#include "re2/re2.h"

namespace memprofd {
namespace {

// Memory limit in bytes for one compiled pattern and for matching with it.
constexpr std::int64_t kMaxPatternMemory = 1 << 20;

class HiddenFrames : public LocationMatcher {
 public:
  explicit HiddenFrames(Patterns patterns) : patterns_(std::move(patterns)) {}
  bool matches(const Location& location) const override {
    return patterns_.found_in(location) != 0;
  }

 private:
  Patterns patterns_;
};

absl::StatusOr<std::shared_ptr<const re2::RE2>> compile_one(const char* what,
                                                            const std::string& pattern) {
  if (pattern.size() > Patterns::kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("bad ", what, " pattern of ", pattern.size(),
                                                   " bytes: at most ", Patterns::kMaxBytes,
                                                   " are allowed"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMaxPatternMemory);
  auto compiled = std::make_shared<const re2::RE2>(pattern, options);
  if (compiled->ok()) return compiled;
  return absl::InvalidArgumentError(absl::StrCat(
      "bad ", what, " pattern \"", absl::Utf8SafeCEscape(pattern),
      "\": ", absl::Utf8SafeCEscape(compiled->error()), "; it is a regular expression of RE2"));
}

absl::Status check_sizes(const Filter& filter) {
  if (filter.max_size_bytes == 0 || filter.min_size_bytes <= filter.max_size_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("bad sizes: the smallest, ", filter.min_size_bytes,
                                                 " bytes, is above the largest, ",
                                                 filter.max_size_bytes, " bytes"));
}

absl::Status check_lifetimes(const LifetimeFilter& lifetime) {
  for (const double seconds : {lifetime.min_seconds, lifetime.max_seconds}) {
    if (std::isfinite(seconds) && seconds >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("bad lifetime ", seconds, " s: it is 0 or more"));
  }
  if (lifetime.max_seconds == 0 || lifetime.min_seconds <= lifetime.max_seconds) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("bad lifetimes: the shortest, ",
                                                 lifetime.min_seconds, " s, is above the longest, ",
                                                 lifetime.max_seconds, " s"));
}

// Matches the line number only against patterns with a colon, so that "7" does not select line 7.
bool is_found(const re2::RE2& pattern, const Location& location) {
  if (re2::RE2::PartialMatch(location.function, pattern) ||
      re2::RE2::PartialMatch(location.file, pattern)) {
    return true;
  }
  return location.line != 0 && pattern.pattern().find(':') != std::string::npos &&
         re2::RE2::PartialMatch(absl::StrCat(location.file, ":", location.line), pattern);
}

}  // namespace

absl::StatusOr<Patterns> Patterns::compile(const char* what,
                                           const std::vector<std::string>& patterns) {
  Patterns result;
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) continue;
    if (result.compiled_.size() == kMaxPatterns) {
      return absl::InvalidArgumentError(absl::StrCat("too many ", what, " patterns: at most ",
                                                     kMaxPatterns,
                                                     " are allowed; join them with |"));
    }
    ASSIGN_OR_RETURN(auto compiled, compile_one(what, pattern));
    result.compiled_.push_back(std::move(compiled));
  }
  return result;
}

std::uint64_t Patterns::all() const {
  return compiled_.size() == kMaxPatterns ? ~0ULL : (1ULL << compiled_.size()) - 1;
}

std::uint64_t Patterns::found_in(const Location& location) const {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < compiled_.size(); ++i) {
    if (is_found(*compiled_[i], location)) found |= 1ULL << i;
  }
  return found;
}

bool Patterns::any_in(const std::string& text) const {
  return std::any_of(compiled_.begin(), compiled_.end(),
                     [&](const auto& pattern) { return re2::RE2::PartialMatch(text, *pattern); });
}

absl::StatusOr<FrameFilter> FrameFilter::compile(const Filter& filter) {
  RETURN_IF_ERROR(check_sizes(filter));
  RETURN_IF_ERROR(check_lifetimes(filter.lifetime));
  ASSIGN_OR_RETURN(Patterns site, Patterns::compile("site", filter.patterns));
  ASSIGN_OR_RETURN(Patterns require, Patterns::compile("require", filter.require));
  ASSIGN_OR_RETURN(Patterns forbid, Patterns::compile("forbid", filter.forbid));
  ASSIGN_OR_RETURN(Patterns hide, Patterns::compile("hide", filter.hide));
  FrameFilter result(std::move(site), std::move(require), std::move(forbid));
  if (!hide.empty()) result.hidden_ = std::make_shared<const HiddenFrames>(std::move(hide));
  result.min_size_bytes_ = static_cast<double>(filter.min_size_bytes);
  result.max_size_bytes_ = static_cast<double>(filter.max_size_bytes);
  result.site_frame_ = filter.site_frame;
  result.heap_ = filter.heap;
  result.source_ = filter.source;
  result.threads_.insert(filter.threads.begin(), filter.threads.end());
  result.domains_.insert(filter.domains.begin(), filter.domains.end());
  return result;
}

bool FrameFilter::passes(const AllocClass& alloc_class) const {
  if (!alloc_class.size.is_known() && (min_size_bytes_ > 0 || max_size_bytes_ > 0)) return false;
  const double bytes = alloc_class.size.middle_words() * kBytesPerWord;
  if (bytes < min_size_bytes_) return false;
  if (max_size_bytes_ > 0 && bytes > max_size_bytes_) return false;
  if (heap_ && *heap_ != alloc_class.heap_kind()) return false;
  if (source_ && *source_ != alloc_class.source) return false;
  // Native memory cannot be added to other memory, so it is shown only on request.
  if (!heap_ && !source_ && alloc_class.heap_kind() == HeapKind::kC) return false;
  if (!threads_.empty() && !threads_.contains(alloc_class.thread)) return false;
  return domains_.empty() || domains_.contains(alloc_class.domain);
}

RowFilter::RowFilter(FrameFilter filter, Symbolizer& symbolizer)
    : filter_(std::move(filter)), frames_(symbolizer, filter_.hidden_.get(), filter_.site_frame_) {}

bool RowFilter::passes(const AllocClass& alloc_class, const Callstack& callstack) {
  return filter_.passes(alloc_class) && passes(callstack);
}

RowFilter::Verdict RowFilter::verdict(LocationId id) {
  if (id.value() >= verdicts_.size()) verdicts_.resize(id.value() + 1);
  Verdict& verdict = verdicts_[id.value()];
  if (verdict.known) return verdict;
  const Location& location = frames_.location(id);
  verdict.known = true;
  verdict.site = filter_.site_.found_in(location) == filter_.site_.all();
  verdict.forbidden = filter_.forbid_.found_in(location) != 0;
  verdict.required = filter_.require_.found_in(location);
  return verdict;
}

bool RowFilter::passes(const Callstack& callstack) {
  if (!filter_.site_.empty() && !verdict(frames_.site(callstack)).site) return false;
  const std::uint64_t all = filter_.require_.all();
  if (all == 0 && filter_.forbid_.empty()) return true;
  bool bad = false;
  std::uint64_t found = 0;
  frames_.walk(callstack, [&](VisibleFrames::Locations locations, std::uint64_t) {
    for (const LocationId id : locations) {
      const Verdict judged = verdict(id);
      bad = bad || judged.forbidden;
      found |= judged.required;
    }
    return !bad;
  });
  return !bad && found == all;
}

}  // namespace memprofd
