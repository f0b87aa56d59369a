// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flame_html.h"

#include "flamegraph_assets.h"

namespace memprofd {
namespace {

// '<' occurs only in strings, where "\u003c" means the same. So neither "</script>" nor "<!--"
// remains. U+2028 and U+2029 end a line in old JavaScript.
void append_escaped(std::string_view json, std::string& out) {
  constexpr std::string_view kLineSeparator = "\u2028";
  constexpr std::string_view kParagraphSeparator = "\u2029";
  std::size_t done = 0;
  const auto replace = [&](std::size_t at, std::size_t size, std::string_view by) {
    out.append(json.substr(done, at - done)).append(by);
    done = at + size;
  };
  for (std::size_t at = json.find_first_of("<\xe2"); at != json.npos;
       at = json.find_first_of("<\xe2", at + 1)) {
    const std::string_view rest = json.substr(at);
    if (rest.front() == '<') {
      replace(at, 1, "\\u003c");
    } else if (rest.starts_with(kLineSeparator)) {
      replace(at, kLineSeparator.size(), "\\u2028");
    } else if (rest.starts_with(kParagraphSeparator)) {
      replace(at, kParagraphSeparator.size(), "\\u2029");
    }
  }
  out.append(json.substr(done));
}

}  // namespace

std::string flame_html(std::string_view json_data) {
  using namespace flamegraph_assets;
  std::string page;
  page.reserve(sizeof kTemplate + sizeof kStyle + sizeof kScript + json_data.size() +
               json_data.size() / 16);
  // The template has the marks in this order.
  std::string_view rest = kTemplate;
  const auto copy_up_to = [&](std::string_view mark) {
    const std::size_t at = rest.find(mark);
    if (at == rest.npos) return;  // impossible with a template that passes the tests
    page.append(rest.substr(0, at));
    rest.remove_prefix(at + mark.size());
  };
  copy_up_to("/*STYLE*/");
  page.append(kStyle);
  copy_up_to("\"/*DATA*/\"");
  append_escaped(json_data, page);
  copy_up_to("/*SCRIPT*/");
  page.append(kScript);
  return page.append(rest);
}

}  // namespace memprofd
