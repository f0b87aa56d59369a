// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_filter.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/query_options.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

absl::StatusOr<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (const char c : line) {
    if (quote == 0 && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote == 0) return words;
  return absl::InvalidArgumentError(absl::StrCat("a ", std::string(1, quote), " is not closed"));
}

std::string quoted(const std::string& text) {
  if (!text.empty() && text.find_first_of(" '\"") == std::string::npos) return text;
  const char* quote = text.find('\'') == std::string::npos ? "'" : "\"";
  return absl::StrCat(quote, text, quote);
}

absl::Status check(const pb::Filter& filter) {
  ASSIGN_OR_RETURN(const Filter ours, from_proto(filter));
  return FrameFilter::compile(ours).status();
}

const char* heap_word(pb::BlockHeap heap) {
  if (heap == pb::BLOCK_HEAP_EXTERNAL) return "external";
  if (heap == pb::BLOCK_HEAP_C) return "c";
  return heap == pb::BLOCK_HEAP_MINOR ? "minor" : "major";
}

const char* source_word(pb::BlockSource source) {
  if (source == pb::BLOCK_SOURCE_MARSHAL) return "marshal";
  if (source == pb::BLOCK_SOURCE_MALLOC) return "malloc";
  return source == pb::BLOCK_SOURCE_CUSTOM ? "custom" : "normal";
}

}  // namespace

absl::StatusOr<pb::Filter> parse_filter(std::string_view line) {
  ASSIGN_OR_RETURN(std::vector<std::string> words, words_of(line));
  const absl::StatusOr<QueryOptions> options = parse_filter_words(std::move(words));
  if (!options.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(options.status().message()),
                                                   "; memprofctl top --help lists the filters"));
  }
  ASSIGN_OR_RETURN(const pb::Filter filter, filter_of(*options, pb::FRAMES_APPLICATION));
  RETURN_IF_ERROR(check(filter));
  return filter;
}

std::string filter_line(const pb::Filter& filter) {
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    // The form with '=' allows values that look like options.
    words.push_back(absl::StrCat(option, value[0] == '-' ? "=" : " ", quoted(value)));
  };
  if (!filter.pattern().empty()) add("--match", filter.pattern());
  for (const std::string& pattern : filter.require()) add("--require", pattern);
  for (const std::string& pattern : filter.forbid()) add("--forbid", pattern);
  for (const std::string& pattern : filter.hide()) add("--hide", pattern);
  if (filter.frames() == pb::FRAMES_ALL) add("--frames", "all");
  if (filter.min_size_bytes() > 0) add("--min-size", absl::StrCat(filter.min_size_bytes()));
  if (filter.max_size_bytes() > 0) add("--max-size", absl::StrCat(filter.max_size_bytes()));
  if (filter.heap() != pb::BLOCK_HEAP_UNSPECIFIED) add("--heap", heap_word(filter.heap()));
  if (filter.source() != pb::BLOCK_SOURCE_UNSPECIFIED) {
    add("--source", source_word(filter.source()));
  }
  for (const std::uint32_t thread : filter.threads()) add("--thread", absl::StrCat(thread));
  for (const std::uint32_t domain : filter.domains()) add("--domain", absl::StrCat(domain));
  return absl::StrJoin(words, " ");
}

}  // namespace memprofd::ctl
