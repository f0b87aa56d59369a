// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flame_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">";
constexpr std::string_view kClose = "</script>";

// Contents of the data element as a browser reads it.
std::string data_element(std::string_view page) {
  const std::size_t open = page.find(kOpen);
  if (open == page.npos) return "no data element";
  const std::size_t begin = open + kOpen.size();
  return std::string(page.substr(begin, page.find(kClose, begin) - begin));
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(FlameHtml, PutsStyleScriptAndDataIntoTheTemplate) {
  const std::string page = flame_html(R"({"title":"server"})");
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>\n"));
  EXPECT_EQ(data_element(page), R"({"title":"server"})");
  EXPECT_EQ(count(page, "/*STYLE*/") + count(page, "/*SCRIPT*/") + count(page, "/*DATA*/"), 0u);
  EXPECT_EQ(count(page, "prefers-color-scheme:dark"), 1u);       // theme.css
  EXPECT_EQ(count(page, "This profile cannot be shown: "), 1u);  // offline.ts
  EXPECT_THAT(page.substr(page.size() - 16), HasSubstr("</body>\n</html>"));
}

TEST(FlameHtml, HostileNamesStayData) {
  const nlohmann::json data = {{"strings",
                                {"</script><script>alert(1)</script>", "<!--<script>", "]]>",
                                 "\u2028\u2029\u20ac", "/*SCRIPT*/", "\"/*DATA*/\"", "\\u003c\\<",
                                 "&lt;", "</ScRiPt >", std::string("\0\x1f\x7f", 3)}}};
  const std::string bland = flame_html("{}");
  const std::string page = flame_html(data.dump());
  const std::string element = data_element(page);
  EXPECT_EQ(nlohmann::json::parse(element), data);
  EXPECT_THAT(element, Not(HasSubstr("<")));
  EXPECT_THAT(element, Not(HasSubstr("\u2028")));
  EXPECT_THAT(element, Not(HasSubstr("\u2029")));
  EXPECT_THAT(element, HasSubstr("\u20ac"));  // begins with the same byte
  // The rest of the page is what it is with any data.
  EXPECT_EQ(page.size() - element.size(), bland.size() - 2);
  EXPECT_EQ(count(page, "<script"), count(bland, "<script"));
  EXPECT_EQ(page.substr(page.find(element) + element.size()),
            bland.substr(bland.find(kOpen) + kOpen.size() + 2));
}

TEST(FlameHtml, TornUtf8AtTheEndIsKept) {
  EXPECT_EQ(data_element(flame_html("{}\xe2\x80")), "{}\xe2\x80");
  EXPECT_EQ(data_element(flame_html("")), "");
}

TEST(FlameHtml, RefersToNothingOutside) {
  const std::string page = flame_html("{}");
  for (const char* reference :
       {"http://", "https://", "//cdn", " src=", "url(", "@import", "@font-face", "fetch(",
        "XMLHttpRequest", "WebSocket", "import(", "sendBeacon"}) {
    EXPECT_EQ(count(page, reference), 0u) << reference;
  }
  EXPECT_EQ(count(page, "href="), 1u);
  EXPECT_EQ(count(page, "href=\"data:,\""), 1u);  // an empty icon, so that none is asked for
  EXPECT_EQ(count(page, "default-src 'none'"), 1u);
}

// Its own script must not end its element either.
TEST(FlameHtml, ScriptElementsAreTheTwoOfTheTemplate) {
  const std::string page = flame_html("{}");
  EXPECT_EQ(count(page, "<script"), 2u);
  EXPECT_EQ(count(page, "</script"), 2u);
  EXPECT_EQ(count(page, "<style"), 1u);
  EXPECT_EQ(count(page, "</style"), 1u);
  EXPECT_EQ(count(page, "<!--"), 0u);
}

}  // namespace
}  // namespace memprofd
