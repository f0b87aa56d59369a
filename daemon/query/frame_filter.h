// SPDX-License-Identifier: Apache-2.0
// A prepared Filter: patterns compiled, numbers checked. Its lifetime part is applied where the
// counts are made (see range.h), everything else here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/profile.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/query.h"
#include "daemon/query/visible_frames.h"

namespace re2 {
class RE2;
}

namespace memprofd {

// RE2 patterns that are searched in a text. Patterns come from outside, so their number, length and
// compiled size are limited. Thread-safe.
class Patterns {
 public:
  static constexpr std::size_t kMaxPatterns = 64;
  static constexpr std::size_t kMaxBytes = 1000;  // maximum size of one pattern

  // Ignores empty patterns. what: subject of the error, "forbid".
  static absl::StatusOr<Patterns> compile(const char* what,
                                          const std::vector<std::string>& patterns);
  bool empty() const { return compiled_.empty(); }
  // All bits that found_in() can set.
  std::uint64_t all() const;
  // Bit i is set if pattern i, not counting empty ones, is found in function, file or, if the
  // pattern has a colon, in "file:line".
  std::uint64_t found_in(const Location& location) const;
  // True if some pattern is found in the text.
  bool any_in(const std::string& text) const;

 private:
  std::vector<std::shared_ptr<const re2::RE2>> compiled_;
};

// Thread-safe; copies share the compiled patterns.
class FrameFilter {
 public:
  // kInvalidArgument: an invalid pattern, or limits that no block can satisfy.
  static absl::StatusOr<FrameFilter> compile(const Filter& filter);

  // Tests size, heap, source, thread and domain.
  bool passes(const AllocClass& alloc_class) const;
  // Frames to omit; null: none.
  std::shared_ptr<const LocationMatcher> hidden() const { return hidden_; }
  SiteFrame site_frame() const { return site_frame_; }

 private:
  friend class RowFilter;
  FrameFilter(Patterns site, Patterns require, Patterns forbid)
      : site_(std::move(site)), require_(std::move(require)), forbid_(std::move(forbid)) {}

  Patterns site_;
  Patterns require_;
  Patterns forbid_;
  std::shared_ptr<const LocationMatcher> hidden_;
  SiteFrame site_frame_ = SiteFrame::kInnermost;
  double min_size_bytes_ = 0;
  double max_size_bytes_ = 0;  // 0: any
  std::optional<HeapKind> heap_;
  std::optional<Source> source_;
  absl::flat_hash_set<std::uint32_t> threads_;
  absl::flat_hash_set<std::uint32_t> domains_;
};

// Applies a filter to callstacks of one target. Tests each location once and remembers the result.
// Not thread-safe.
class RowFilter {
 public:
  // symbolizer must outlive this.
  RowFilter(FrameFilter filter, Symbolizer& symbolizer);
  // Hidden frames are removed before any other condition is tested.
  bool passes(const AllocClass& alloc_class, const Callstack& callstack);

 private:
  struct Verdict {
    bool known = false;
    bool site = false;  // can name a site
    bool forbidden = false;
    std::uint64_t required = 0;  // bits of the required patterns that were found
  };
  Verdict verdict(LocationId id);
  bool passes(const Callstack& callstack);

  const FrameFilter filter_;
  VisibleFrames frames_;
  std::vector<Verdict> verdicts_;  // indexed by LocationId
};

}  // namespace memprofd
