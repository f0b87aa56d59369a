#include "daemon/ctl/render_top.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/text_table.h"
#include "daemon/ctl/words.h"
#include "daemon/export/grpc_convert.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

using SiteName = std::tuple<std::string, std::string, std::uint32_t>;

SiteName name_of(const pb::Site& site) { return {site.function(), site.file(), site.line()}; }

// Allocation per second between two answers; unset when there is no interval.
class Rates {
 public:
  Rates(const pb::ListSitesResponse& now, const pb::ListSitesResponse* previous) {
    if (previous == nullptr) return;
    seconds_ = static_cast<double>(now.time_unix_ns() - previous->time_unix_ns()) / 1e9;
    target_before_ = previous->target().allocated().bytes();
    for (const pb::Site& site : previous->sites()) {
      before_[name_of(site)] = site.allocated().bytes();
    }
  }

  std::string of_target(const pb::Target& target) const {
    return words(target.allocated().bytes(), target_before_);
  }
  std::string of_site(const pb::Site& site) const {
    const auto before = before_.find(name_of(site));
    return before == before_.end() ? "-" : words(site.allocated().bytes(), before->second);
  }

 private:
  std::string words(double now, double before) const {
    if (seconds_ <= 0) return "-";
    return absl::StrCat(format_bytes(std::max(0.0, now - before) / seconds_), "/s");
  }

  double seconds_ = 0;
  double target_before_ = 0;
  std::map<SiteName, double> before_;
};

std::vector<std::string> header_lines(const pb::Target& target, const Rates& rates,
                                      std::size_t width) {
  const std::string_view state = state_word(target.state());
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat(printable(target.comm()), " (pid ", target.pid(), ", OCaml ",
                               printable(target.runtime_version()), ")  ",
                               absl::string_view(state.data(), state.size()), "  rate ",
                               format_rate(target.sampling_rate()), "  dropped ",
                               format_count(target.dropped_events())));
  lines.push_back(absl::StrCat("live ", estimate_words(target.live()), "  allocated ",
                               estimate_words(target.allocated()), "  allocating ",
                               rates.of_target(target)));
  if (target.has_gc()) {
    lines.back() +=
        absl::StrCat("  heap ", format_bytes(static_cast<double>(target.gc().heap_bytes())),
                     "  minor gc ", format_count(target.gc().minor_collections()), "  major gc ",
                     format_count(target.gc().major_collections()));
  }
  if (!target.message().empty()) lines.push_back(printable(target.message()));
  if (width > 0) {
    for (std::string& line : lines) line = fit_width(line, width);
  }
  return lines;
}

}  // namespace

TopFrame top_frame(const pb::ListSitesResponse& now, const pb::ListSitesResponse* previous,
                   pb::SiteOrder order, std::size_t width) {
  const Rates rates(now, previous);
  const auto title = [&](const char* text, pb::SiteOrder sorts) {
    return Column{absl::StrCat(text, sorts == order ? "*" : ""), Align::kRight};
  };
  TextTable table({title("LIVE", pb::SITE_ORDER_LIVE),
                   title("ALLOCATED", pb::SITE_ORDER_ALLOCATED),
                   {"ALLOCATING", Align::kRight},
                   title("PROMOTED", pb::SITE_ORDER_PROMOTED),
                   {"DIED YOUNG", Align::kRight},
                   title("P50 LIFETIME", pb::SITE_ORDER_LIFETIME),
                   {"SITE"}});
  for (const pb::Site& site : now.sites()) {
    const double allocated = site.allocated().bytes();
    table.add_row(
        {estimate_words(site.live()), estimate_words(site.allocated()), rates.of_site(site),
         format_share(site.promoted().bytes(), allocated),
         format_share(site.died_young().bytes(), allocated), median_words(site.lifetime()),
         absl::StrCat(printable(site.function()), "  ", location_words(site.file(), site.line()))});
  }
  TopFrame frame;
  frame.header = header_lines(now.target(), rates, width);
  std::vector<std::string> lines = table.lines(width);
  frame.title = lines.front();
  frame.sites.assign(lines.begin() + 1, lines.end());
  return frame;
}

}  // namespace memprofd::ctl
