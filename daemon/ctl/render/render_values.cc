// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/render_published.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

std::string fields_text(const pb::Value& value, std::string_view open, std::string_view close) {
  std::vector<std::string> texts;
  for (const pb::Value& field : value.fields()) texts.push_back(value_text(field));
  if (value.is_cut()) texts.push_back("..");
  return fmt::format("{}{}{}", open, absl::StrJoin(texts, "; "), close);
}

std::string counted(const pb::Value& value, std::string_view what) {
  return fmt::format("{} of {}{}", what, value.size(), value.size_is_least() ? " or more" : "");
}

std::string string_text(const pb::Value& value) {
  if (value.text().empty() && value.size() > 0)
    return fmt::format("string of {} bytes", value.size());
  return fmt::format("\"{}\"{}", absl::Utf8SafeCEscape(value.text()),
                     value.is_cut() ? fmt::format("..{} bytes", value.size()) : "");
}

// "; chains of 1 to 3: 337 87 8"
std::string chains_text(const pb::Value& table) {
  constexpr int kReportedAlone = 16;
  const auto& chains = table.chains();
  if (chains.size() <= 1) return "";
  const int last = std::min(chains.size(), kReportedAlone);
  return fmt::format(
      "; chains of {}: {}{}", last == 2 ? "1" : fmt::format("1 to {}", last - 1),
      absl::StrJoin(chains.begin() + 1, chains.begin() + last, " "),
      chains.size() > kReportedAlone ? fmt::format(", longer: {}", chains[kReportedAlone]) : "");
}

std::string table_text(const pb::Value& value) {
  if (!value.chains_counted()) {
    return fmt::format("Hashtbl of {} in {} buckets, chains not measured", value.size(),
                       value.buckets());
  }
  return fmt::format("Hashtbl of {} in {} buckets, {} empty, longest chain {}{}", value.size(),
                     value.buckets(), value.empty_buckets(), value.longest_chain(),
                     chains_text(value));
}

std::string custom_text(const pb::Value& value) {
  if (value.text() == "_i") return fmt::format("{}l", value.integer());
  if (value.text() == "_j") return fmt::format("{}L", value.integer());
  if (value.text() == "_n") return fmt::format("{}n", value.integer());
  return fmt::format("custom block {}", printable(value.text()));
}

std::string block_text(const pb::Value& value) {
  const std::string tag = value.tag() == 0 ? "" : fmt::format("tag {} ", value.tag());
  const std::string all = tag + fields_text(value, "{", "}");
  return value.is_cut() ? fmt::format("{}, {} fields", all, value.size()) : all;
}

std::string tag_text(const pb::Value& tag) {
  return fmt::format("{} marked{}, {}{}", tag.size(), tag.size_is_least() ? " or more" : "",
                     format_bytes(static_cast<double>(tag.bytes())),
                     tag.bytes_is_least() ? " or more" : "");
}

constexpr int kShownLines = 20;

// The last log lines, a pause, and the reason if the program's values could not be read.
void append_log(const pb::ListValuesResponse& values, std::string& text) {
  if (values.lines_size() > 0) absl::StrAppend(&text, "\nLOG\n");
  for (int i = std::max(0, values.lines_size() - kShownLines); i < values.lines_size(); ++i) {
    absl::StrAppend(&text, line_text(values.lines(i)), "\n");
  }
  if (values.waiting() > 0) {
    absl::StrAppend(&text,
                    "the program waits in a pause; resume it with `memprofctl values resume`\n");
  }
  if (!values.why_nothing_reported().empty()) {
    absl::StrAppend(&text, values.why_nothing_reported(), "\n");
  }
  if (values.lost_lines() > 0) {
    absl::StrAppend(&text, values.lost_lines(), " lines were lost: threads wrote at once\n");
  }
  if (values.refused_names() > 0) {
    absl::StrAppend(&text, values.refused_names(),
                    " points, timers or values found no place in the program's registry; points "
                    "and timers among them count in 'other'\n");
  }
  if (values.malformed_names() > 0) {
    absl::StrAppend(
        &text, values.malformed_names(),
        " names of the program are damaged and omitted: it may have overwritten its registry\n");
  }
}

// The text depends on the kind.
std::string plain_text(const pb::Value& value) {
  switch (value.kind()) {
    case pb::VALUE_KIND_INTEGER:
      return std::to_string(value.integer());
    case pb::VALUE_KIND_FLOAT:
      return fmt::format("{:#.12g}", value.number());
    case pb::VALUE_KIND_STRING:
      return string_text(value);
    case pb::VALUE_KIND_FLOAT_ARRAY:
      return counted(value, "float array");
    case pb::VALUE_KIND_FUNCTION:
      return fmt::format("function {}", printable(value.text()));
    case pb::VALUE_KIND_LAZY:
      return "lazy";
    case pb::VALUE_KIND_CUSTOM:
      return custom_text(value);
    case pb::VALUE_KIND_ABSTRACT:
      return "abstract block";
    case pb::VALUE_KIND_OBJECT:
      return "object";
    case pb::VALUE_KIND_REFERENCE:
      return "ref " + fields_text(value, "", "");
    case pb::VALUE_KIND_LIST:
      return counted(value, "list") + " " + fields_text(value, "[", "]");
    case pb::VALUE_KIND_TABLE:
      return table_text(value);
    case pb::VALUE_KIND_QUEUE:
      return counted(value, "queue") + " " + fields_text(value, "[", "]");
    case pb::VALUE_KIND_TREE:
      return counted(value, "Map or Set");
    case pb::VALUE_KIND_BLOCK:
      return block_text(value);
    case pb::VALUE_KIND_TAG:
      return tag_text(value);
    case pb::VALUE_KIND_UNREAD:
      return value.why_unread().empty() ? ".." : fmt::format("not read: {}", value.why_unread());
    default:
      return "(unknown to this memprofctl)";
  }
}

constexpr std::uint64_t kNotRead = ~std::uint64_t{0};

// Sort key of a value: bytes of a string, elements of a collection, or the largest of a reference's
// or record's contents.
std::uint64_t size_of(const pb::Value& value) {
  switch (value.kind()) {
    case pb::VALUE_KIND_STRING:
    case pb::VALUE_KIND_FLOAT_ARRAY:
    case pb::VALUE_KIND_LIST:
    case pb::VALUE_KIND_TABLE:
    case pb::VALUE_KIND_QUEUE:
    case pb::VALUE_KIND_TREE:
    case pb::VALUE_KIND_TAG:
      return value.size();
    case pb::VALUE_KIND_UNREAD:  // too large to read, if the value states it
      return value.why_unread().empty() ? 0 : kNotRead;
    default:
      break;
  }
  std::uint64_t size = 0;
  for (const pb::Value& field : value.fields()) size = std::max(size, size_of(field));
  return size;
}

// A module value, its size, and its growth.
struct SizedValue {
  const pb::NamedValue* named = nullptr;
  std::uint64_t size = 0;
  std::int64_t growth = 0;
};

// The largest growth first, then the largest values.
std::vector<SizedValue> by_size(const pb::ListValuesResponse& values,
                                const pb::ListValuesResponse* before) {
  std::map<std::string_view, std::uint64_t> known;
  if (before != nullptr) {
    for (const pb::NamedValue& named : before->values()) {
      known.emplace(named.name(), size_of(named.value()));
    }
  }
  std::vector<SizedValue> sorted;
  for (const pb::NamedValue& named : values.values()) {
    sorted.push_back({.named = &named, .size = size_of(named.value())});
    SizedValue& sized = sorted.back();
    const auto found = known.find(named.name());
    if (found == known.end() || found->second == kNotRead || sized.size == kNotRead) continue;
    sized.growth = static_cast<std::int64_t>(sized.size - found->second);
  }
  std::ranges::stable_sort(sorted, [](const SizedValue& a, const SizedValue& b) {
    return a.growth != b.growth ? a.growth > b.growth : a.size > b.size;
  });
  return sorted;
}

// Maximum width of a module value on a terminal, so that one long type does not make the table 600
// columns wide.
constexpr std::size_t kWidestName = 60, kWidestValue = 120;

}  // namespace

std::string value_text(const pb::Value& value) {
  const std::string text = plain_text(value);
  if (!value.is_of_snapshot()) return text;
  return absl::StrCat(text, " (of a snapshot, ", format_bytes(static_cast<double>(value.bytes())),
                      ")");
}

const std::string& name_of(const pb::NamedValue& named) {
  return named.source_name().empty() ? named.name() : named.source_name();
}

std::string render_values(const pb::ListValuesResponse& values, const Style& style,
                          const pb::ListValuesResponse* before) {
  TextTable table({{"NAME"}, {"VALUE"}});
  for (const pb::Reported& one : values.reported()) {
    table.add_row({published_name(one), published_text(one)});
    for (const pb::DomainShare& share : one.domains()) {
      table.add_row({"  " + domain_name(share), domain_text(one, share)});
    }
  }
  const auto fitted = [&](const std::string& text, std::size_t widest) {
    return style.width > 0 ? fit_width(text, widest) : text;
  };
  for (const SizedValue& sized : by_size(values, before)) {
    const pb::NamedValue& named = *sized.named;
    const bool has_type = !named.source_type().empty() && named.source_type() != "_";
    const std::string type = has_type ? " : " + named.source_type() : "";
    table.add_row({fitted(printable(name_of(named) + type), kWidestName),
                   fitted(value_text(named.value()), kWidestValue) +
                       (sized.growth != 0 ? fmt::format(" ({:+})", sized.growth) : "") +
                       (named.value().is_changing() ? " (changing)" : "")});
  }
  std::string text = absl::StrJoin(table.lines(style.width), "\n") + "\n";
  if (values.left_out() > 0) {
    absl::StrAppend(&text, values.left_out(), " more; --limit shows them\n");
  }
  if (values.not_reached() > 0) {
    absl::StrAppend(&text, values.not_reached(), " names were not reached: collections are too ",
                    "frequent; select fewer with a pattern\n");
  }
  if (values.other_builds_size() > 0) {
    absl::StrAppend(&text, "ignored, files of another build: ",
                    names_text({values.other_builds().begin(), values.other_builds().end()}), "\n");
  }
  if (values.unverified_names()) {
    text += "names and types come from files that may be of another build\n";
  }
  append_log(values, text);
  return text;
}

std::string grown_values_text(const pb::ListValuesResponse& before,
                              const pb::ListValuesResponse& after, double seconds) {
  constexpr std::size_t kMax = 5;
  std::string out;
  std::size_t shown = 0;
  for (const SizedValue& sized : by_size(after, &before)) {
    if (sized.growth <= 0 || ++shown > kMax) break;
    absl::StrAppend(&out, "  ", printable(name_of(*sized.named)), ": ",
                    value_text(sized.named->value()), fmt::format(" ({:+})\n", sized.growth));
  }
  if (out.empty()) return "";
  return absl::StrCat("\nValues that are larger than ", format_duration(seconds), " before:\n",
                      out);
}

}  // namespace memprofd::ctl
