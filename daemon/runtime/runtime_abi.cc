// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/runtime_abi.h"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <vector>

#include "daemon/util/refusal.h"

namespace memprofd {
namespace {

// Names in refusals: "heap snapshots of OCaml 5.6.0 are not supported yet".
constexpr std::array<std::string_view, kCapabilities> kNames = {
    "agents in programs",
    "sessions over the domains",
    "callstacks captured by the kernel",
    "callstacks captured by the agent",
    "observations",
    "heap snapshots",
    "types of the source",
    "values of modules",
    "counts of calls",
    "times of calls",
    "parts of the heap",
    "native heaps",
};

std::string_view major_of(std::string_view series) { return series.substr(0, series.find('.')); }

// "4.11 to 4.14 and 5.3 to 5.4": consecutive rows with one major number are a range.
template <typename Wanted>
std::string list_series(const Wanted& wanted) {
  std::vector<std::string> ranges;
  const Release* first = nullptr;
  const Release* last = nullptr;
  const auto close = [&] {
    if (first == nullptr) return;
    ranges.push_back(first == last ? std::string(first->series)
                                   : fmt::format("{} to {}", first->series, last->series));
    first = nullptr;
  };
  for (const Release& release : releases()) {
    if (first != nullptr && major_of(first->series) != major_of(release.series)) close();
    if (!wanted(release)) {
      close();
      continue;
    }
    if (first == nullptr) first = &release;
    last = &release;
  }
  close();
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0) text += i + 1 == ranges.size() ? " and " : ", ";
    text += ranges[i];
  }
  return text;
}

// "5.4.0~rc1" is one, "5.4.1+flambda" is not.
bool is_prerelease(std::string_view version) { return version.find('~') != version.npos; }

}  // namespace

std::string_view series_of(std::string_view version) {
  const auto digits = [&](std::size_t at) {
    std::size_t n = 0;
    while (at + n < version.size() && std::isdigit(static_cast<unsigned char>(version[at + n])))
      ++n;
    return n;
  };
  const std::size_t major = digits(0);
  if (major == 0 || major > 2 || major >= version.size() || version[major] != '.') return {};
  const std::size_t minor = digits(major + 1);
  return minor == 0 || minor > 2 ? std::string_view() : version.substr(0, major + 1 + minor);
}

absl::StatusOr<RuntimeAbi> runtime_abi_for(std::string_view version) {
  const std::string_view series = series_of(version);
  for (const Release& release : releases()) {
    if (release.series != series) continue;
    RuntimeAbi abi{release.facts, std::string(version), release.tested};
    abi.callstacks_stay = abi.callstacks_stay && !is_prerelease(version);
    return abi;
  }
  return refused(Refusal::kVersion, fmt::format("OCaml {} is not supported yet, only {} are",
                                                version, list_series([](const Release& one) {
                                                  return one.tested.has(Capability::kAttach) ||
                                                         one.tested.has(Capability::kObserve);
                                                })));
}

absl::Status check_capability(const RuntimeAbi& abi, Capability what) {
  if (abi.tested.has(what)) return absl::OkStatus();
  return refused(
      Refusal::kVersion,
      fmt::format("{} of OCaml {} are not supported yet, only those of {}",
                  kNames[static_cast<std::size_t>(what)], abi.version,
                  list_series([what](const Release& one) { return one.tested.has(what); })));
}

const TypedTree* typed_tree_of(int format) {
  for (const Release& release : releases()) {
    if (release.tested.has(Capability::kTypes) && release.facts.typed_tree.format == format)
      return &release.facts.typed_tree;
  }
  return nullptr;
}

}  // namespace memprofd
